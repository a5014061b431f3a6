from __future__ import annotations

import bz2
import gzip
import hashlib
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.files import CorruptFileError
from corpora.layout import InputConfig
from corpora.readers import wikidump
from corpora.readers.lines import TooLong
from corpora.readers.wikidump import RawPage, read_pages
from pipelines.annotate.sentences import split_sentences
from tests.corpora.conftest import Read, read_layout

HEADER = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="zh">
  <siteinfo>
    <sitename>Wikipedia</sitename>
    <dbname>zhwiki</dbname>
    <namespaces>
      <namespace key="0" case="first-letter" />
      <namespace key="1" case="first-letter">Talk</namespace>
      <namespace key="6" case="first-letter">Bild</namespace>
      <namespace key="14" case="first-letter">Kategorie</namespace>
    </namespaces>
  </siteinfo>
"""
FOOTER = "</mediawiki>\n"


def page(number: object, text: str | None, *, title: str = "甲", ns: object = 0, extra: str = "") -> str:
    """One page as MediaWiki writes it."""
    namespace = "" if ns is None else f"    <ns>{ns}</ns>\n"
    body = (
        '<text xml:space="preserve" />'
        if text is None
        else f'<text xml:space="preserve">{html.escape(text)}</text>'
    )
    return (
        f"  <page>\n    <title>{html.escape(title)}</title>\n{namespace}    <id>{number}</id>\n{extra}"
        f"    <revision>\n      <id>9{number}</id>\n      <contributor><username>U</username><id>7</id></contributor>\n"
        f"      <model>wikitext</model>\n      {body}\n    </revision>\n  </page>\n"
    )


def dump(*pages: str) -> bytes:
    return (HEADER + "".join(pages) + FOOTER).encode()


SMALL = dump(
    page(
        1,
        "'''甲'''是[[乙 (丙)|乙]]。<ref>x</ref>\n\n第二段 &nbsp; a < b。\n[[Kategorie:丁|x]]\n[[Category:E_f]]",
    ),
    page(2, "#WEITERLEITUNG [[甲]]", extra='    <redirect title="甲" />\n'),
    page(3, "讨论", title="Talk:甲", ns=1),
    page(4, "#重定向 [[甲]]"),
    page(5, "{{信息框|a=b}}\n[[Bild:a.jpg|thumb|c]]"),
    page(6, "乙。", title="A & B"),
)
WIKI: dict[str, Any] = {"format": "wikipedia"}


def balanced(got: Read) -> bool:
    counts = got.counts
    return (
        counts["pages"] == len(got.rows) + len(got.rejects) + counts["redirects"] + counts["other_namespace"]
    )


def test_articles_become_documents(read: Callable[..., Read]) -> None:
    got = read(SMALL, name="a.xml", **WIKI)
    assert [(r["doc_id"], r["title"], r["text"], r["categories"]) for r in got.rows] == [
        ("zhwiki:1", "甲", "甲是乙。\n\n第二段 a < b。", ["丁", "E f"]),
        ("zhwiki:6", "A & B", "乙。", []),
    ]
    assert [r["source"] for r in got.rows] == [
        f"a.xml@{SMALL.index(b'<page>')}",
        f"a.xml@{SMALL.rindex(b'<page>')}",
    ]
    assert got.counts == {"pages": 6, "redirects": 2, "other_namespace": 1}
    (reject,) = got.rejects
    assert reject.reason == "empty_text" and "page 5" in reject.detail and balanced(got)
    assert SMALL[reject.byte :].startswith(
        b"<page>\n    <title>\xe7\x94\xb2</title>\n    <ns>0</ns>\n    <id>5<"
    )
    assert reject.line == SMALL[: reject.byte].count(b"\n") + 1


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.xml.bz2", bz2.compress),
        ("a.xml.gz", gzip.compress),
        ("a.xml.zst", zstandard.compress),
        # multistream: header, pages and footer in streams of their own
        (
            "a.xml.bz2",
            lambda d: b"".join(
                bz2.compress(p) for p in (d[: d.index(b"<page>")], d[d.index(b"<page>") : -30], d[-30:])
            ),
        ),
    ],
    ids=["bz2", "gz", "zst", "multistream"],
)
def test_compressed_dumps(read: Callable[..., Read], name: str, pack: Callable[[bytes], bytes]) -> None:
    plain, got = read(SMALL, name="a.xml", **WIKI), read(pack(SMALL), name=name, block_bytes=10, **WIKI)
    assert got.blocks == 1 and got.texts == plain.texts and got.counts == plain.counts


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_blocks_never_change_what_comes_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    pieces = [
        page(1, "a\n\nb " * 20),
        page(2, "#redirect [[x]]"),
        page(3, "", ns=3),
        page(4, None),
        "  <page>\n    <title>x</title>\n",  # broken: never closes
        "  <page><id>7</id></revision></page>\n",  # broken: not well-formed
        page(8, "z" * 300),
        "\n  <logitem>\n <id>1</id></logitem>\n",
    ]
    chosen = [
        page(100 + i, f"w{i}") if p is None else p
        for i, p in enumerate(data.draw(st.lists(st.sampled_from([None, *pieces]), max_size=8)))
    ]
    raw = dump(*chosen)
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "a.xml").write_bytes(raw)
    layout = InputConfig(files={"train": ["a.xml"]}, **WIKI)
    whole = read_layout(layout, folder, "pretrain", "en", 1 << 20, 1 << 20)
    size = data.draw(st.integers(50, len(raw)))
    cut = read_layout(layout, folder, "pretrain", "en", size, 1 << 20)
    assert whole.blocks == 1 and cut.blocks == -(-len(raw) // size)
    assert cut.rows == whole.rows and cut.rejects == whole.rejects and cut.counts == whole.counts
    assert balanced(whole) and whole.counts["pages"] == raw.count(b"<page>")


def test_pages_do_not_depend_on_how_much_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, read: Callable[..., Read]
) -> None:
    whole = read(SMALL, name="a.xml", **WIKI)
    for size in (1, 2, 3, 7, 50, 333):
        monkeypatch.setattr(wikidump, "CHUNK", size)
        monkeypatch.setattr(wikidump, "LOOKAHEAD", size)
        got = read(SMALL, name="a.xml", **WIKI)
        assert got.rows == whole.rows and got.rejects == whole.rejects
        assert read(SMALL, name="a.xml", block_bytes=200, **WIKI).rows == whole.rows


# --- what cannot be used ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "reason", "says"),
    [
        ("  <page><title>x</title>\n", "bad_xml", "no </page>"),
        ("  <page><id>7</id></revision></page>\n", "bad_xml", "mismatched tag at byte"),
        (
            "  <page><id>7</id><revision><text>&lol9;</text></revision></page>\n",
            "bad_xml",
            "undefined entity",
        ),
        (page("x", "a"), "missing_id", "'x'"),
        ("  <page><title>x</title><revision><text>a</text></revision></page>\n", "missing_id", "''"),
        (page(7, None).replace("<text", '<text deleted="deleted"'), "missing_text", "page 7"),
        ("  <page><ns>0</ns><id>7</id></page>\n", "missing_text", "page 7"),
        (page(7, None), "empty_text", "page 7"),
        (page(7, "{}").replace("wikitext", "json"), "not_wikitext", "'json'"),
    ],
)
def test_a_bad_page_costs_itself_alone(read: Callable[..., Read], bad: str, reason: str, says: str) -> None:
    for pages in ((page(1, "a"), bad, page(9, "b")), (page(1, "a"), page(9, "b"), bad)):
        raw = dump(*pages)
        got = read(raw, name="a.xml", **WIKI)
        assert got.texts == ["a", "b"] and balanced(got)
        (reject,) = got.rejects
        assert reject.reason == reason and says in reject.detail
        assert (
            reject.byte == raw.index(bad.encode().strip())
            and reject.line == raw[: reject.byte].count(b"\n") + 1
        )


def test_wrong_bytes_in_a_page(read: Callable[..., Read]) -> None:
    raw = dump(page(1, "a"), page(2, "@"), page(3, "c")).replace(b"@", b"\xff")
    got = read(raw, name="a.xml", **WIKI)
    assert got.texts == ["a", "c"] and got.reasons == ["bad_encoding"]
    assert f"offset {raw.index(0xFF)} of the file" in got.rejects[0].detail


def test_errors_in_a_page_name_their_byte(read: Callable[..., Read]) -> None:
    raw = dump(page(1, "a"), "  <page><id>7</id><b></c></page>\n")
    (reject,) = read(raw, name="a.xml", **WIKI).rejects
    at = int(re.search(r"byte (\d+)", reject.detail)[1])  # type: ignore[index]
    assert raw[at - 2 : at + 2] == b"</c>"


def test_a_page_that_is_too_long(tmp_path: Path) -> None:
    raw = dump(page(1, "a"), page(2, "b" * 5000), page(3, "c"))
    (tmp_path / "a.xml").write_bytes(raw)
    with (tmp_path / "a.xml").open("rb") as file:
        found = list(read_pages(file, "a.xml", 0, None, limit=1000))
    assert [type(f) for f in found] == [RawPage, TooLong, RawPage]
    assert [raw[f.start :].startswith(b"<page>") for f in found] == [True] * 3


def test_ranges_that_end_in_a_tag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    raw = dump(page(1, "a"), page(2, "b"), page(3, "c"))
    (tmp_path / "a.xml").write_bytes(raw)
    monkeypatch.setattr(wikidump, "CHUNK", 5)
    monkeypatch.setattr(wikidump, "LOOKAHEAD", 3)

    def pages(start: int, stop: int | None) -> list[RawPage | TooLong]:
        with (tmp_path / "a.xml").open("rb") as file:
            file.seek(start)
            return list(read_pages(file, "a.xml", start, stop))

    starts = [m.start() for m in re.finditer(b"<page>", raw)]
    for cut in [c for at in starts for c in range(at - 8, at + 9)]:
        assert [p.start for p in pages(0, cut)] == [at for at in starts if at < cut]
        assert [p.start for p in pages(cut, len(raw))] == [at for at in starts if at >= cut]
    for start in range(len(raw) - 20, len(raw)):  # a range that holds no more than the end of the last tag
        assert pages(start, len(raw)) == []


@pytest.mark.parametrize("cut", [1, 5, 12, 13, 14, 20])
def test_a_dump_that_lacks_its_last_bytes_fails(read: Callable[..., Read], cut: int) -> None:
    raw = dump(*(page(i, "甲 " * 50) for i in range(1, 30))).rstrip()[:-cut]
    where = (
        "without </mediawiki>" if raw.rstrip().endswith(b"</page>") or cut < 13 else "in the page that starts"
    )
    for block_bytes in (1 << 20, 700):
        with pytest.raises(CorruptFileError, match=where):
            read(raw, name="a.xml", block_bytes=block_bytes, **WIKI)


@pytest.mark.parametrize("keep", [0.0, 0.05, 0.3, 0.6, 0.9, 0.999])
def test_a_dump_that_is_cut_off_fails(read: Callable[..., Read], keep: float) -> None:
    raw = dump(*(page(i, "甲 " * 50) for i in range(1, 30))).rstrip()
    cut = raw[: int(len(raw) * keep)] or b"<mediawiki>"
    for block_bytes in (1 << 20, 700):
        with pytest.raises(CorruptFileError, match=r"a\.xml is truncated"):
            read(cut, name="a.xml", block_bytes=block_bytes, **WIKI)
    with pytest.raises(CorruptFileError, match=r"a\.xml\.bz2 is truncated"):
        read(bz2.compress(cut), name="a.xml.bz2", **WIKI)
    packed = bz2.compress(raw)
    with pytest.raises(CorruptFileError, match=r"a\.xml\.bz2 is truncated"):
        read(packed[: int(len(packed) * keep)] or packed[:5], name="a.xml.bz2", **WIKI)


def test_a_dtd_is_refused(read: Callable[..., Read]) -> None:
    entities = '<!ENTITY lol "lol">' + "".join(
        f'<!ENTITY lol{i} "{f"&lol{i - 1 if i > 1 else str()};" * 10}">' for i in range(1, 10)
    )
    for doctype in (f"<!DOCTYPE mediawiki [{entities}]>", '<!DOCTYPE mediawiki SYSTEM "file:///etc/passwd">'):
        raw = f"<?xml version='1.0'?>{doctype}".encode() + dump(page(1, "a").replace(">a<", ">&lol9;<"))
        for block_bytes in (1 << 20, 300):
            with pytest.raises(ValueError, match=r"a\.xml is not a MediaWiki export: it has a DTD"):
                read(raw, name="a.xml", block_bytes=block_bytes, **WIKI)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"<html><page>a</page></html>", "root element is <html>"),
        (b"just text", "syntax error"),
        (b'<?xml version="1.0" encoding="gb18030"?>' + SMALL, "gb18030"),
        (b"<mediawiki>" + b" " * (2 << 20), "no <siteinfo>"),
        (bz2.compress(SMALL), "not well-formed"),
    ],
)
def test_what_is_no_export(read: Callable[..., Read], raw: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=r"a\.xml is not a MediaWiki export") as error:
        read(raw, name="a.xml", **WIKI)
    assert says in str(error.value)


def test_settings(read: Callable[..., Read]) -> None:
    with pytest.raises(ValueError, match="'encoding' is for format"):
        InputConfig(files={"train": ["a"]}, encoding="gb18030", **WIKI)
    with pytest.raises(ValueError, match="'headings' is for format wikipedia"):
        InputConfig(files={"train": ["a"]}, format="text", headings="keep")
    with pytest.raises(ValueError, match="holds no labels"):
        read(SMALL, name="a.xml", task="classify", **WIKI)
    raw = dump(page(1, "a\n== b ==\nc\n== d ==\n"))
    assert read(raw, name="a.xml", **WIKI).texts == ["a\n\nc"]
    assert read(raw, name="a.xml", headings="keep", **WIKI).texts == ["a\n\nb\n\nc"]


def test_old_exports(read: Callable[..., Read]) -> None:
    """No short name, no <ns>, no <redirect>; several revisions in a history dump."""
    raw = dump(
        page(1, "a", ns=None),
        page(2, "b", title="Talk:c", ns=None),
        page(3, "c", title="D: E", ns=None),
        page(4, "old").replace(
            "</page>", page(4, "new").partition("</id>\n")[2].partition("  </page>")[0] + "</page>"
        ),
    ).replace(b"<dbname>zhwiki</dbname>", b"")
    got = read(raw, name="a.xml", **WIKI)
    assert [(r["doc_id"], r["text"]) for r in got.rows] == [
        ("a.xml:1", "a"),
        ("a.xml:3", "c"),
        ("a.xml:4", "new"),
    ]
    assert got.counts == {"pages": 4, "other_namespace": 1}


def test_the_variant_follows_the_language(read: Callable[..., Read]) -> None:
    raw = dump(page(1, "-{zh-hant:電腦; zh-hans:计算机}-。"))
    assert read(raw, name="a.xml", corpus_language="zh", **WIKI).texts == ["计算机。"]
    assert read(raw, name="a.xml", corpus_language="zh-hant", **WIKI).texts == ["電腦。"]


def test_the_parser_is_asked_for_by_name(read: Callable[..., Read], monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    plain = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("mwparserfromhell"):
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'treegraft\[pipelines\]'"):
        read(dump(page(1, "[[a|{{lang|en|b}}]]")), name="a.xml", **WIKI)


# --- real pages ---------------------------------------------------------------------------------

PROSE = {
    "enwiki:340": "41f28854c7 7062240918 205c9a1865 869fa463d4",
    "enwiki:334": "103d90b567f 6890c6ef77 7918f33029 95c32f7a26 88e0b1158b 81dd04d742 205167a0653 694ca27068 "
    "1161a091cf9 841e246bef 49e696e4a6 9063a75213",
    "enwiki:681": "1440d74de20 78453154ec 37852007e0 563cbfabcb 2310ea44f25 5160fb4a63 7934ab46f7 26aec065a5 "
    "16fa9fe560 372bc5ddb3 100efbff2c4 82ddbddbbb 106929ef645 564a29d5c7 383a4bc1fcc 2878c8fab63 114538cada1 258c949526",
}
"""Of three pages, every paragraph of prose before the lists at the end: its number of words, and the first eight
digits of the SHA-256 of its text, from the wikitext with each reference, template and link replaced by hand."""

MARKUP = re.compile(r"\[\[|\]\]|\{\{|\}\}|\{\||\|\}|<ref|<br", re.IGNORECASE)


@pytest.fixture(scope="module")
def sample(real_data: Path) -> Read:
    layout = InputConfig(files={"train": ["enwiki-sample.xml.bz2"]}, **WIKI)
    return read_layout(layout, real_data / "wiki", "pretrain", "en", 1 << 20, 1 << 20)


def test_real_pages_add_up(sample: Read) -> None:
    assert sample.counts == {"pages": 206, "redirects": 99, "other_namespace": 1}
    assert len(sample.rows) == 106 and not sample.rejects
    assert len({r["doc_id"] for r in sample.rows}) == 106
    assert sum(not r["categories"] for r in sample.rows) == 7  # their templates do it
    assert all(r["title"] for r in sample.rows)


def test_no_markup_is_left(sample: Read) -> None:
    sentences = [
        text[a:b] for text in sample.texts for a, b in zip(*split_sentences(text, "en"), strict=True)
    ]
    left = [s for s in sentences if MARKUP.search(s)]
    assert len(sentences) > 20_000 and len(left) <= len(sentences) / 1000, left[:5]


@pytest.mark.parametrize("identity", PROSE)
def test_no_prose_is_lost(sample: Read, identity: str) -> None:
    (text,) = (r["text"] for r in sample.rows if r["doc_id"] == identity)
    blocks = [f"{len(b.split())}{hashlib.sha256(b.encode()).hexdigest()[:8]}" for b in text.split("\n\n")]
    wanted = PROSE[identity].split()
    assert blocks[: len(wanted)] == wanted


def test_memory_is_that_of_a_page(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.xml"
    with path.open("wb") as file:
        file.write(HEADER.encode())
        for i in range(300):
            file.write(page(i, "a[[b]] " * 15_000, ns=1).encode())
        file.write(FOOTER.encode())
    layout = InputConfig(files={"train": ["a.xml"]}, **WIKI)
    assert path.stat().st_size > 30e6
    tracemalloc.start()
    got = read_layout(layout, tmp_path, "pretrain", "en", 1 << 40, 1 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got.counts["other_namespace"] == 300 and peak < 8e6
