"""How well a parser parses treebanks: `treegraft parse-eval`."""
