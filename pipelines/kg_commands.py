"""The commands `treegraft kg`: build a graph, look at its figures, ask what it makes of a text."""

from __future__ import annotations

import json as json_text
import math
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from pipelines import kg_flags
from pipelines.display import make_console
from pipelines.section import ConfigError
from pipelines.view.legible import legible, plural

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Knowledge graphs: build one from files of triples, look at its figures, see what it makes of a text.\n\n"
    "Start with [bold]treegraft kg build FILES --out my.kg[/bold], then name it in configs: "
    "[bold]graph: {compiled: my.kg}[/bold].",
)
_out = make_console()
_err = make_console(stderr=True)

GraphFolder = Annotated[
    str, typer.Argument(metavar="DIR", help="A graph that `kg build` made, or a dataset that has one.")
]
_READING = "How files are read"
_KEEPING = "What is kept"


@app.command()
def build(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="Files, globs, folders or URIs; .gz, .bz2 and .zst as they are."
        ),
    ],
    out: Annotated[str, typer.Option(help="Folder of the graph; an older graph there is replaced.")],
    format: Annotated[
        str,
        typer.Option(
            help="auto (by each file's name), tsv, csv, rdf or conceptnet.", rich_help_panel=_READING
        ),
    ] = "auto",
    columns: Annotated[
        str | None,
        typer.Option(
            help="tsv, csv: where the parts stand, by number or header name: subject=1,object=3 leaves the predicate "
            "empty.",
            rich_help_panel=_READING,
        ),
    ] = None,
    delimiter: Annotated[
        str, typer.Option(help="csv: the character between fields.", rich_help_panel=_READING)
    ] = ",",
    encoding: Annotated[
        str, typer.Option(help="tsv, csv: such as utf-8, gb18030 or big5.", rich_help_panel=_READING)
    ] = "utf-8",
    language: Annotated[
        str | None,
        typer.Option(
            help="rdf: language of labels and literals (default: any), or several in order: zh,en. conceptnet: of both "
            "concepts (needed).",
            rich_help_panel=_READING,
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="rdf: IRI of a property that names nodes; several in order of preference. Default: rdfs:label, "
            "skos:prefLabel, schema.org/name, foaf:name.",
            rich_help_panel=_READING,
        ),
    ] = None,
    unlabelled: Annotated[
        str,
        typer.Option(
            help="rdf: nodes without a label are left out (skip) or named by their IRI's end (local_name).",
            rich_help_panel=_READING,
        ),
    ] = "skip",
    fold: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare text and subjects without: nfkc (width and other forms of a character), case, simplified "
            "(traditional and simplified Chinese). Several: --fold nfkc,case.",
            rich_help_panel=_KEEPING,
        ),
    ] = None,
    min_subject: Annotated[
        int, typer.Option(help="Shortest subject, in characters.", rich_help_panel=_KEEPING)
    ] = 1,
    max_subject: Annotated[
        int, typer.Option(help="Longest subject, in characters.", rich_help_panel=_KEEPING)
    ] = 256,
    max_object: Annotated[
        int, typer.Option(help="Longest object, in characters.", rich_help_panel=_KEEPING)
    ] = 4096,
    stop: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Subjects that are left out, one a line.", rich_help_panel=_KEEPING
        ),
    ] = None,
    max_reject_fraction: Annotated[
        float,
        typer.Option(min=0, max=1, help="A larger share of malformed lines ends the build with an error."),
    ] = 0.01,
) -> None:
    """Compile files of triples into a graph that pipelines open in milliseconds.

    Formats by file name: .spo .tsv .txt (subject, predicate, object, TAB between; or subject and object),
    .csv (with a header), .nt .ttl .nq .trig .rdf .owl, and conceptnet-assertions*.

    Nothing stands in the folder before everything does. Malformed lines are listed in OUT.rejects.jsonl.

      treegraft kg build cndbpedia.spo.gz --out cndbpedia.kg --fold nfkc,case
      treegraft kg build edges.csv --out my.kg \\
        --columns subject=head,predicate=rel,object=tail
      treegraft kg build labels.nt facts.nt --out wikidata.kg --language zh
    """
    from kg.errors import GraphError
    from pipelines import graph_build
    from pipelines.view.kg_show import build_parts

    if math.isnan(max_reject_fraction):  # older versions of Typer take it for a number from 0 to 1
        raise ConfigError("--max-reject-fraction: expected a share from 0 to 1, found nan")
    given = {
        "format": format,
        "columns": kg_flags.columns(columns),
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "encoding": encoding,
        "language": language,
        "labels": label or None,
        "unlabelled": unlabelled,
        "fold": [name.strip() for names in fold or () for name in names.split(",")],
        "min_subject": min_subject,
        "max_subject": max_subject,
        "max_object": max_object,
        "stop": stop or [],
    }
    config = kg_flags.build_config(given)
    try:
        options = graph_build.build_options(config, field="")
        infos = graph_build.triple_files(paths, field="FILES")
        graph_build.check_formats(infos, options, "FILES")
    except ConfigError as error:
        raise ConfigError(kg_flags.as_flags(str(error))) from None
    folder = Path(out.rstrip("/") or "/")
    listed = f"{folder}.rejects.jsonl"
    graph_build.refuse_foreign_list(listed)
    start = time.monotonic()

    def accept(info: Any, rejects: graph_build.Rejects) -> None:
        rejects.write(listed)
        hint = (
            f"Each is listed in {listed} with its line and reason. Mend the files, or name the format, columns "
            "or encoding that they have, or raise --max-reject-fraction."
        )
        graph_build.refuse_rejects(info, rejects, max_reject_fraction, hint)

    try:
        info, rejects = graph_build.compile_files(
            infos, folder, options, _err, accept=accept, say=kg_flags.as_flags
        )
    except GraphError as error:
        raise GraphError(kg_flags.as_flags(str(error))) from None
    except KeyboardInterrupt:
        _err.print(Text(f"stopped; nothing was written to {legible(str(folder))}", "yellow"))
        raise typer.Exit(130) from None
    for part in build_parts(info, folder, time.monotonic() - start, _out.width):
        _out.print(part)
    if rejects.first:
        for line in rejects.first:
            _err.print(Text(legible(graph_build.first_line(line)), "yellow"))
        _err.print(Text(f"every malformed line is listed in {legible(listed)}", "yellow"))
    _err.print(_next_steps(folder), soft_wrap=True)


def _next_steps(folder: Path) -> Text:
    name = legible(str(folder))
    word = shlex.quote(name)
    return Text(
        f"next: treegraft kg stats {word}\n"
        f'      treegraft kg lookup {word} "a text"\n'
        f"      in a config: graph: {{compiled: {json_text.dumps(name, ensure_ascii=False) if ' ' in name else name}}}"
    )


@app.command()
def stats(
    folder: GraphFolder,
    top: Annotated[int, typer.Option(min=1, help="How many of the most frequent are listed.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Figures of a graph: sizes, hubs, predicates, files, folded spellings, loops.

    Look here for what makes noise: a subject with a hundred thousand triples, or a predicate that says
    nothing, is a candidate for graph.stop or graph.exclude_predicates.
    """
    from pipelines.view.kg_show import open_for_view, stats_json, stats_parts

    graph = open_for_view(folder)
    if json:
        print(stats_json(graph, top))
        return
    for part in stats_parts(graph, top, _out.width):
        _out.print(part)


@app.command()
def subjects(
    folder: GraphFolder,
    min_length: Annotated[
        int, typer.Option(min=1, help="Shorter subjects, in characters, are left out.")
    ] = 2,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where they go. Default: standard output.")
    ] = None,
) -> None:
    """The subjects of a graph, one a line: a dictionary for the segmentation, as annotate.user_dict.

    `graph.match: words` finds only subjects that are whole words. K-BERT's own segmenter knows the graph's
    subjects; without them many are cut into pieces.
    """
    from corpora import files
    from pipelines.kg_subjects import dictionary_lines
    from pipelines.view.kg_show import open_for_view

    counts: Counter[str] = Counter()
    parts = (part.encode() for part in dictionary_lines(open_for_view(folder), min_length, counts))
    if out is None:
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.flush()
        return
    with files.write_atomic(out) as sink:
        for part in parts:
            sink.write(part)
    rest = [f"{counts['shorter']:,} shorter than --min-length left out"] if counts["shorter"] else []
    rest += [f"{counts['broken']:,} with a line end left out"] if counts["broken"] else []
    said = [f"wrote {legible(out)}: {plural(counts['written'], 'subject')}", *rest]
    _err.print(Text("; ".join(said)), soft_wrap=True)
    _err.print(Text(f"next, in a config: annotate: {{user_dict: {legible(out)}}}"), soft_wrap=True)


@app.command()
def lookup(
    folder: GraphFolder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A text; - reads it from standard input.")],
    config: Annotated[
        Path | None, typer.Option(help="Take policy, tokenizer and language from this config.")
    ] = None,
    pair: Annotated[str | None, typer.Option(metavar="TEXT", help="Second text of a pair.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Try another policy: --set rank=shortest --set depth=2."
        ),
    ] = None,
) -> None:
    """What the graph makes of a text: its mentions, subjects that are none and why, every triple's fate, the tree.

    Without a config the policy has its defaults, and tokens are characters of Chinese and words of other
    scripts. The config's own `graph.triples` or `graph.compiled` is not opened: DIR is.
    """
    from kg.errors import GraphError
    from pipelines.lookup import look_up
    from pipelines.lookup_tools import changed, of_config, plain
    from pipelines.view.kg_show import open_for_view
    from pipelines.view.lookup_show import lookup_parts

    texts = [_read(text), *([_read(pair)] if pair is not None else [])]
    graph = open_for_view(folder)
    tools = changed(plain() if config is None else of_config(config, texts), settings or [])
    try:
        found = look_up(graph, tools.policy, tools.tokenizer, texts, tools.max_length, tools.words)
    except GraphError as error:
        raise ConfigError(str(error)) from None
    sizes = f"{plural(graph.info.triples, 'triple')}, {plural(graph.info.subjects, 'subject')}"
    facts = [("graph", f"{graph.folder}: {sizes}")]
    facts += [("fold", ", ".join(graph.info.fold) or "nothing"), *tools.facts]
    for part in lookup_parts(found, graph, facts, _out.width):
        _out.print(part)


def _read(text: str) -> str:
    from pipelines.lookup import MAX_CHARACTERS

    if text != "-":
        return text
    raw = sys.stdin.buffer.read(4 * MAX_CHARACTERS + 4)  # more are too many, whatever they are
    if len(raw) > 4 * MAX_CHARACTERS + 3:  # a byte order mark
        raise ConfigError(f"TEXT: standard input has more than {MAX_CHARACTERS:,} characters")
    try:
        return raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ConfigError(f"TEXT: standard input is not UTF-8 (byte {error.start})") from None
