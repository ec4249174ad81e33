"""Subcommands of the command line tool that need Python. The compiled half parses the arguments."""
