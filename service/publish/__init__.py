"""Out to people: what happened to a proposal, told to those who may decide, by the channels that each chose."""
