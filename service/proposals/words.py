"""What a search in the inbox finds a proposal by: the agent's words, the facts of the headline, branches and paths."""

from typing import Any, Final

from service.contract.names import quote_path
from service.contract.refs import short_name
from service.proposals.planning import Planned, load_card

WORDS_MOST: Final = 20_000


def searchable(planned: Planned) -> dict[str, Any]:
    """The columns that the inbox's search and filters read: `words` in lower case, and whether there are warnings."""
    card = load_card(planned.card)
    facts = (str(value) for value in card.headline.params.values() if isinstance(value, (str, int)))
    paths = (quote_path(path) for path in planned.paths)
    said = (*card.agent_words.values(), *map(short_name, planned.refs), *facts, *paths)
    return {"words": "\n".join(said).lower()[:WORDS_MOST], "warned": bool(card.warnings)}
