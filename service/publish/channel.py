"""What every channel can say of a message that did not arrive."""


class Undelivered(Exception):
    """A message did not arrive; the text is one sentence for the person whose it is, without secrets.

    Attributes:
        final: trying again is of no use.
        gone: the receiver is no more, and is forgotten.
    """

    def __init__(self, sentence: str, *, final: bool = False, gone: bool = False) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.final = final or gone
        self.gone = gone
