"""Characters that stand for something while a page is worked on. No XML document can contain them.

None is NUL, which mwparserfromhell takes for the end of the text.
"""

from __future__ import annotations

import re

GONE = "\x07"
"""Something vanished here: a template, a reference, a table."""
RAW_OPEN, RAW_CLOSE = "\x01", "\x02"
"""Around the number of a stretch that is text whatever it looks like (<nowiki>)."""
BREAK = "\x03"
"""A line end inside a block (<br>)."""
BLOCK = "\x04"
"""A block begins or ends here (<div>, <p>)."""
LESS = "\x05"
"""A `<` that begins no tag."""
FILL = "\x06"
"""In place of one character of a bracket that has no partner."""

OTHERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""All of them, and what else is not allowed in XML 1.0."""
