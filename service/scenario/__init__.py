"""The whole story over real HTTP: an agent proposes, an owner decides, the writer executes and is killed once."""
