"""The orchard's web shop."""
