from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.readers.wikitext import Names, page, templates, to_text, variants
from corpora.readers.wikitext.brackets import find_constructs
from corpora.readers.wikitext.preprocess import drop_quotes


def plain(wikitext: str, language: str = "en", **options: bool) -> str:
    return to_text(wikitext, language, **options).text


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        # links
        ("A [[dog]]s [[b (c)|d]] [[:Category:E|e]] [[#f|g]] [[h|]] [[i (j)|]].", "A dogs d e g h i."),
        ("[http://a.b c d], [http://a.b], [//a.b e] and http://f.g here", "c d, e and http://f.g here"),
        ("[[File:a.jpg|thumb|x [[y]] {{z}}]]b [[Image:c.png]] [[文件:d.png|e]]", "b"),
        ("a [[de:B]] [[zh-yue:C]] [[wikt:d|e]] [[It: f]] [[doi:1/2]]", "a e It: f doi:1/2"),
        ("[[a|b [[c]] ''d'']] [[e\nf]] [[g|h|i]]", "b c d e f h|i"),
        ("[http://a [[b|c]] d] [[http://e f]] [http://g h\ni]", "c d f [http://g h i]"),
        # templates
        ("a {{cite web|url=http://x|title=[[y]]}} {{coord|1|2}} b{{fact}}.", "a b."),
        ("{{Infobox\n| a = {{b|c}}\n| d = [[e]]\n}}\nText.", "Text."),
        ("{{lang|fr|''bon'' {{nobr|[[jour]]}}}} {{Lang-de|gut}} {{nihongo|a|b|c}}", "bon jour gut a (b, c)"),
        (
            "{{transl|ja|x}} {{abbr|Dr.|Doctor}} {{As of|2010|5}}, {{as of|2010|5|3|lc=y|df=US}}",
            "x Dr. As of May 2010, as of May 3, 2010",
        ),
        (
            "{{convert|10|km|mi}}, {{convert|5|ft|6|in|m}}, {{cvt|1|-|4|km2}}, {{convert|3|to|4|m|ft|0}}",
            "10 km, 5 ft 6 in, 1–4 km², 3 to 4 m",
        ),
        (
            "{{frac|1|2}} {{chem|H|2|O}} {{formatnum:1234}} {{US$|5}} {{HMS|Hood|51}} {{harvtxt|A|B|1974}}",
            "1/2 H2O 1234 US$5 HMS Hood A & B (1974)",
        ),
        ("He said:\n{{quote|1=a = b\n\nc|2=author}}\nThen.", "He said:\n\na = b\n\nc\n\nThen."),
        ("a{{!}}b{{=}}c{{'}}s", "a|b=c's"),
        ("{{quote|a <br> {{citation needed}} b}}", "a\nb"),
        # what vanishes, and what it leaves
        (
            "A ({{IPAc-en|a}}; {{lang-el|}}, b) c ( , ) f() ({{x}}) d ( {{y}} , {{z}} ), e",
            "A (b) c ( , ) f() d, e",
        ),
        ("a, {{x}}, b{{x}}c {{y}} d {{z}}. 中{{x}}文", "a, b c d. 中文"),
        ("a<ref>b [[c]]</ref><ref name=d/>, e<ref name='f'>g</ref >. H", "a, e. H"),
        ("a<!-- b\n c -->d\n<!-- e -->\nf", "ad f"),
        ("a\n{| class=x\n| b\n{|\n| c\n|}\n|}\nd\n<table><tr><td>e</td></tr></table>\nf", "a\n\nd\n\nf"),
        ("{{a\n|b={|\n|c\n|}}}\nd\n{{e\n|f=\n|}}\ng", "d\n\ng"),
        ("<gallery>\na.jpg|b\n</gallery>c <syntaxhighlight lang=x>d</syntaxhighlight> <pre>e</pre>", "c"),
        (
            "<math>x</math>, <math>\\frac{a}{b}</math> <code>y</code> <source lang=c inline>z[[0]]</source>",
            "x, y z[[0]]",
        ),
        ("__NOTOC__a__FORCETOC__ __b__ snake__CASE", "a __b__ snake__CASE"),
        # marks of style, entities, literal text
        ("'''a''' ''b'' '''''c''''' l'''d''' ''''e''''", "a b c ld 'e'"),
        (
            "a&nbsp;b&ndash;c &lt;ref&gt; &amp;amp; &#91;&#91; &bogus; AT&T",
            "a b–c <ref> &amp; [[ &bogus; AT&T",
        ),
        ("<nowiki>[[a]] '''{{b}} &lt;</nowiki>''c''<nowiki/>", "[[a]] '''{{b}} <c"),
        (
            "H<sub>2</sub>O <small>a</small> <span style='b'>c</span> x < y <foo> <br",
            "H2O a c x < y <foo> <br",
        ),
        ("a<br>b<br/>c</br>d", "a\nb\nc\nd"),
        ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>字", "漢字"),
        # blocks
        ("a\nb\n\nc\n* d\n** e [[f]]\n# g\n: h\n; i : j\nk", "a b\n\nc\n\nd\n\ne f\n\ng\n\nh\n\ni : j\n\nk"),
        ("中文\n中文\nabc\nd", "中文中文 abc d"),
        ("a\n----\nb<div>c</div>d\n<blockquote>e</blockquote>", "a\n\nb\n\nc\n\nd\n\ne"),
        ("<poem>\na\nb<ref>c</ref>\n</poem>", "a\nb"),
        ("* {{cite book}}, a\n* {{x}} : b", "a\n\nb"),
        ("a\n* {{x}}\n* [[Category:y]]\n*", "a"),
    ],
)
def test_markup(wikitext: str, text: str) -> None:
    assert plain(wikitext) == text


def test_headings() -> None:
    source = "a\n== b ==\n=== c ===\nd\n== e ==\n{{reflist}}\n== [[f|g]] == <!-- x -->\n* h\n=i\nj="
    assert plain(source) == "a\n\nd\n\nh\n\n=i j="
    assert plain(source, headings=True) == "a\n\nb\n\nc\n\nd\n\ng\n\nh\n\n=i j="


def test_categories_and_names_of_namespaces() -> None:
    names = Names.of([("6", "Bild"), ("14", "Kategorie"), ("0", "")])
    got = to_text("[[Kategorie:B_c|d]][[category: E ]][[kategorie:B c]][[Bild:f]][[分類:g]]h", names=names)
    assert got.categories == ["B c", "E", "g"] and got.text == "h"
    assert to_text("[[Kategorie:B]]").categories == []


def test_quotes_are_balanced_as_the_wiki_does() -> None:
    assert drop_quotes("l'''amour'' b") == "l'amour b"
    assert drop_quotes("ab'''c'' d") == "ab'c d"
    assert drop_quotes("a '''b'' c") == "a 'b c"
    assert drop_quotes("'''a''' '''b'' ''c") == "a b c"
    assert drop_quotes("'a' ''''b'''' '''''''c'''''''") == "'a' 'b' ''c''"


@pytest.mark.parametrize(
    ("wikitext", "hans", "hant"),
    [
        ("a-{zh-hans:计算机; zh-hant:電腦;}-b", "a计算机b", "a電腦b"),
        ("-{zh-cn:A;zh-tw:B;zh-hk:C}-", "A", "B"),
        ("-{zh-hk:C;zh-mo:D}-", "C", "C"),
        ("-{zh:x;zh-hant:y}-", "x", "y"),
        ("-{甲乙}- -{ 丙 }-", "甲乙 丙", "甲乙 丙"),
        ("-{T|zh-hans:甲;zh-hant:乙}-丙-{H|zh-cn:x;zh-tw:y}--{A|zh-cn:丁;zh-tw:戊}-", "丙丁", "丙戊"),
        ("-{R|乙}-丙-{zh-hans;zh-hant|丁}-", "乙丙丁", "乙丙丁"),
        ("-{zh-hans:a-{zh-hans:b;zh-hant:c}-; zh-hant:d-{e}-}-", "ab", "de"),
        ("-{zh-hans:[[甲|乙]];zh-hant:{{lang|en|x;y}}}-", "乙", "x;y"),
        ("-{{lang|en|a}}- [[-{b}-]]", "-a- b", "-a- b"),
        ("-{zh-hans:{{lang|en|x}}-y;zh-hant:z}-", "x-y", "z"),
        ("-{zh-hans:甲", "zh-hans:甲", "zh-hans:甲"),
        ("-{{{lang|en|a}}}-", "a", "a"),
    ],
)
def test_variants_of_chinese(wikitext: str, hans: str, hant: str) -> None:
    assert plain(wikitext, "zh") == hans
    assert plain(wikitext, "zh-Hant") == hant


def test_other_languages_have_no_variants() -> None:
    assert plain("a -{b}- c") == "a -{b}- c"
    assert variants.preference("en") == () and variants.preference("zh_TW")[0] == "zh-hant"


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("{{link-en|甲|A}} {{le|乙|B|丙}} {{tsl|en|C|丁}} {{tsl|en|C|丁|戊}}", "甲 丙 丁 戊"),
        ("甲{{bd|1893年|12月26日|1976年|9月9日}}，乙", "甲（1893年12月26日－1976年9月9日），乙"),
        (
            "甲（{{lang|en|A}}，{{IPA-xx|x}}{{cite}}）乙（{{x}}，{{y}}）丙",
            "甲（A，[x]）乙丙",
        ),
        ("北京（{{zh|s=北京|p=Běijīng}}）", "北京（北京, Běijīng）"),
    ],
)
def test_templates_of_chinese_pages(wikitext: str, text: str) -> None:
    assert plain(wikitext, "zh") == text


def test_brackets_that_nothing_closes_are_dropped_and_cost_nothing_else() -> None:
    assert plain("a {{b [[c]] d {{lang|en|e}} ]] f }} }} g [[h [[i]]") == "a g h i"
    assert plain("a {{b [[c]] d") == "a b c d"
    assert plain("[[a {{b]] c") == "a b c"
    assert plain("{| a\n| b\nc\n|}}\nd") == "c\n\nd"
    assert plain("a <ref>b</re> c <ref name=d> e") == "a b</re> c e"


TOKENS = (
    "{{ }} { } [[ ]] [ ] | = : ; * # ''' '' == a b \n lang File: Category: http://x <ref> </ref> <br> < <!-- --> "
    "<nowiki> </nowiki> {| |} |- -{ }- zh-hans: R| &amp; & __TOC__ ( ) , 中 <poem> </poem> <math> </math> {{!}} quote"
)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(TOKENS.split(" ")), max_size=40), st.sampled_from(["en", "zh"]))
def test_any_markup_becomes_blocks_of_text(tokens: list[str], language: str) -> None:
    text = plain("".join(tokens), language)
    assert not re.search("[\x00-\x08\x0b-\x1f]", text)
    assert text == "" or all(block.strip() for block in text.split("\n\n"))
    assert text == text.strip()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["{{", "}}", "[[", "]]", "a", "\n", "|"]), max_size=30))
def test_pairs_against_a_slow_loop(tokens: list[str]) -> None:
    """A closer takes the last opener of its kind that is still open; what opened in between is given up."""
    text = "".join(f"{t} " for t in tokens)  # no runs
    starts = [sum(len(t) + 1 for t in tokens[:i]) for i in range(len(tokens))]
    still: list[int] = []
    pairs = []
    for i, token in enumerate(tokens):
        if token in ("{{", "[["):
            still.append(i)
        elif token in ("}}", "]]"):
            kind = {"}}": "{{", "]]": "[["}[token]
            mine = [j for j in still if tokens[j] == kind]
            if mine:
                pairs.append((starts[mine[-1]], starts[i] + 2))
                still = [j for j in still if j < mine[-1]]
    outer = sorted(p for p in pairs if not any(q[0] < p[0] and p[1] < q[1] for q in pairs))
    cleaned, spans = find_constructs(text)
    assert [(s.start, s.stop) for s in spans] == outer
    matched = {p for a, b in pairs for p in (a, b - 2)}
    lone = [
        starts[i] for i, t in enumerate(tokens) if t in ("{{", "}}", "[[", "]]") and starts[i] not in matched
    ]
    assert [m.start() for m in re.finditer("\x06\x06", cleaned)] == lone
    assert len(cleaned) == len(text)


def test_short_ways_agree_with_the_parser(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain links and templates are read without mwparserfromhell; it reads them alike."""
    import bz2
    import html

    raw = bz2.decompress((real_data / "wiki/enwiki-sample.xml.bz2").read_bytes()).decode()
    texts = [html.unescape(t) for t in re.findall(r"<text[^>]*>(.*?)</text>", raw, re.DOTALL)]
    texts = [t for t in texts if len(t) > 200][::9]
    assert len(texts) > 10
    short = [to_text(t) for t in texts]
    never = re.compile("(?!)")
    for name in ("_SIMPLE_LINK", "_SIMPLE_ADDRESS", "_SIMPLE_TEMPLATE"):
        monkeypatch.setattr(page, name, never)
    assert [to_text(t) for t in texts] == short


HOSTILE = [
    "{{", "[[", "{{a|[[b|", "{{lang|en|", "[[a|", "<b>", "<ref>", '<ref name="', "{|\n", "|}\n", "<!--", "[http://a ",
    "''", "*#:;", "<a <b ", "-{zh-hans:", "-{", "==", "= a\n", "({{x}},", "( ,", ", {{x}} ", "&#", "__A", "<nowiki>",
    "{{quote|a}}", "[[a|b [[c]] d]]", "{{nowrap|" + "|b" * 900 + "}}", "{{lang|en|[[a|b]]" + "|b" * 900 + "}}",
    "-{a" * 9 + "}-" * 9, "{{lang|en|" * 30 + "x" + "}}" * 30, "\n", " ", "a b. ",
]  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE, ids=lambda u: repr(u[:12]))
def test_hostile_pages_cost_their_length(unit: str) -> None:
    """200 kB of each within seconds: what a parser by itself takes minutes for, or runs out of stack."""
    start = time.process_time()
    plain(unit * (200_000 // len(unit)), "zh")
    assert time.process_time() - start < 15


def test_a_closing_tag_that_is_missing_is_looked_for_once() -> None:
    start = time.process_time()
    assert plain("<ref>" * 200_000) == ""
    assert time.process_time() - start < 15


def test_the_parser_gets_a_page_by_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_PARTS", 23)
    assert plain("{{lang|en|[[a|b]]}} " * 9) == "b b b b"  # five parts each
    nested = [plain("{{nobr|" * n + "x [[a|b [[c]]]]" + "}}" * n + " y") for n in (18, 19)]
    monkeypatch.undo()
    assert nested == ["y", "y"]
    nested = [plain("{{nobr|" * n + "x [[a|b [[c]]]]" + "}}" * n + " y") for n in (18, 19)]
    assert nested == ["x b c y", "y"]


def test_many_nested_braces() -> None:
    assert plain("{{" * 50_000 + "}}" * 50_000 + "a") == "a"
    assert plain("{{lang|en|" * 50_000 + "x" + "}}" * 50_000 + " a").endswith("a")
    assert plain("[[" * 100_000 + "a") == "a"


def test_marks_of_ours_in_a_text_mean_nothing() -> None:
    assert plain("a\x00\x01" + "0\x02\x03\x04\x05\x06\x07b") == "a0b"


def test_the_table_of_templates_is_lower_case() -> None:
    names = [*templates._PICK, *templates._JOIN, *templates._CONSTANT, *templates._MONEY, *templates._RULES]
    assert all(name == " ".join(name.lower().split()) for name in names)
    assert len(names) == len(set(names)) and templates.known(" Template:Nowrap_ ") is not None
    assert templates.known("formatnum:1") and templates.known("formatnum:" + "1" * 1000) is None
