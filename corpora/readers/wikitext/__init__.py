"""Wikitext to plain text: the running prose of a page, and nothing of its markup.

`to_text` goes over a page in linear passes, so that no page, however broken, costs more than its
length: what the wiki's own preprocessor takes out (comments, references, formulas, code), tables, quote
marks and HTML tags; then templates and links, found by one stack over brackets. Templates whose text belongs
to the prose (`templates`) and links with anything inside are given to mwparserfromhell, one balanced
piece of bounded depth at a time; given whole pages, it takes minutes for 100 kB of unclosed tags.

What becomes of what:

    paragraph, list item, heading    a block of its own, blocks apart by a blank line: a single line end
                                     does not end a sentence
    [[page|label]], [address label]  the label; a link without one its page, an address in brackets nothing
    {{lang|en|text}} and the like    their text, by the table in `templates`; other templates nothing
    <ref>, tables, files, galleries, <pre> and <syntaxhighlight>, categories, magic words    nothing
    <math>                           itself where it is plain (`x`, `a + b`), nothing where it is LaTeX
    <br>                             a line end; `&nbsp;` a space, `&shy;` nothing, other entities themselves
    -{zh-hans:A; zh-hant:B}-         the variant by `variants.PREFERENCE` (Chinese only)

Where something vanished, what it leaves behind is tidied: `( , )`, a space before a comma. Parentheses
in which nothing vanished stay: `f()`.
"""

from corpora.readers.wikitext.page import Names, Plain, to_text

__all__ = ["Names", "Plain", "to_text"]
