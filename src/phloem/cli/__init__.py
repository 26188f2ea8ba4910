"""The command line: flags → settings → task, one small module per command."""
