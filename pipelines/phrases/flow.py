"""The road of `treegraft phrases`: annotate, count and model, score, choose, report.

Counting and modelling are stages (`pipelines.ngrams`): they resume, run on every Beam runner, and give the same bytes
whatever the number of workers. Scoring and choosing go on in the driver, which streams the frequent n-grams range by
range and keeps those above the thresholds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.text import Text

from corpora import files
from corpora.blocks import Block
from corpora.manifest import MANIFEST
from corpora.plan import plan_blocks
from pipelines import engine, flow, folders, refusals, watched
from pipelines.config import Config, ConfigError
from pipelines.differences import Facts, differences, listed
from pipelines.language import primary_language
from pipelines.ngrams import settings as ngram_settings
from pipelines.ngrams.discounts import FALLBACK, DiscountError
from pipelines.ngrams.flow import Estimation, Outcome
from pipelines.ngrams.source import Lines, Source
from pipelines.options import Options
from pipelines.phrases import report
from pipelines.phrases.candidates import WordRules, candidates, links, stop_words
from pipelines.phrases.model import Model, load_kenlm
from pipelines.phrases.rank import select
from pipelines.phrases.report import MODEL, PHRASES, REPORT, Result
from pipelines.phrases.source import (
    STAND_IN,
    AnnotatedSentences,
    Lowered,
    annotated_blocks,
    counted_splits,
    line_blocks,
)
from pipelines.settings import facts_hash, flat
from pipelines.view.legible import legible

FOLDER = "phrases"
CODE_VERSION = 2
"""Raised whenever the same sentences would give another lexicon."""
_INPUTS = "inputs.json"
"""What was counted, with the times of the last changes."""
_FILES = (MANIFEST, REPORT, PHRASES, MODEL)
_CHOICE = {"min_probability", "min_dependence", "max_inside", "rank", "size", "stop", "links", "words"}
"""Settings that the counts and the model do not depend on."""


class PhraseSearch:
    """One corpus, and a model that is there already or shall be made. Raises ConfigError before any work."""

    def __init__(self, config: Config, config_path: str, options: Options, model: str | None = None) -> None:
        self._config, self._path, self._options = config, config_path, options
        self.folder = files.join(options.out, FOLDER)
        self._work = files.join(self.folder, engine.WORK)
        folders.check_folder(self.folder)
        load_kenlm()
        self._splits = counted_splits(config.input, config.phrases.splits)
        self._stop = stop_words(config.phrases, config.language, config_path)
        self._links = links(config.phrases, config.language)
        if config.phrases.text == "lines" and config.input.format != "text":
            raise ConfigError(
                f"phrases.text is 'lines', but input.format is {config.input.format!r}; lines of words need 'text'"
            )
        chosen = config.phrases.lowercase
        self._lowercase = config.encode.lowercase if chosen is None else chosen
        target = files.join(self.folder, MODEL)
        if model and not files.is_uri(model) and Path(model).resolve() == Path(target).resolve():
            raise ConfigError(
                f"--model: {target} is what this command writes; give it another name or folder first"
            )
        self._given = model
        self._model = Model(model) if model and not self._is_finished else None

    @property
    def _is_finished(self) -> bool:
        return files.exists(files.join(self.folder, MANIFEST))

    def run(self) -> Result:
        """Run to the manifest, or find that it is there already."""
        if primary_language(self._config.language) == "zh":
            self._say("note: Chinese needs no phrases, as its coarse tokens are the words that jieba finds")
        result = report.read_result(self.folder)
        if result is None and not self._options.overwrite:
            folders.refuse_strangers(self.folder, _FILES)
        source, blocks, inputs = self._sentences()
        facts = self._facts(inputs)
        fingerprint = facts_hash(
            [CODE_VERSION, ngram_settings.CODE_VERSION, source.fingerprint, asdict(facts)]
        )
        damage = result.damage(self.folder) if result is not None else None
        dated = files.join(self._work, _INPUTS)
        unchanged = not files.exists(dated) or files.read_bytes(dated) == _json(inputs)
        if result is not None and result.fingerprint == fingerprint and not damage and unchanged:
            self._say(f"phrases: already finished in {legible(self.folder)}")
            return result
        if result is not None and not self._options.overwrite:
            old = Facts(result.settings, result.identities, {}, result.inputs)
            lines = [damage] if damage else differences(old, facts, every_tool=True)
            lines += [] if unchanged or lines else ["an input was written again since"]
            raise engine.RunError(
                f"{self.folder} holds finished work of another config, code or input, or what was changed since:"
                f"{listed(lines)}\nChoose another folder with --out, or pass --overwrite to replace it."
            )
        with engine.only_writer(self.folder), folders.marked(self.folder):
            for name in _FILES:
                files.remove(files.join(self.folder, name))
            files.remove_temporaries(self.folder)
            with files.write_atomic(dated) as sink:
                sink.write(_json(inputs))
            return self._make(self._estimation(source, blocks, inputs), facts, fingerprint)

    def _sentences(self) -> tuple[Source, list[Block], list[dict[str, Any]]]:
        """What is counted; annotates the corpus where that is wanted and not done yet."""
        config = self._config
        if config.phrases.text == "annotated":
            manifest = flow.annotate(config, self._path, self._options)
            blocks = annotated_blocks(self._options.annotated, manifest, self._splits)
            inputs = [{"path": part.name, "sha256": part.sha256} for b in blocks for part in b.parts]
            source: Source = AnnotatedSentences()
        else:
            try:
                plan = plan_blocks(
                    config.input, str(Path(self._path).resolve().parent), config.run.block_bytes
                )
            except OSError as error:
                raise ConfigError(f"input.files: {error.strerror or error}") from None
            blocks = line_blocks(plan, self._splits)
            inputs, source = refusals.raw_inputs(blocks), Lines()
        return Lowered(source) if self._lowercase else source, blocks, inputs

    def _facts(self, inputs: Sequence[dict[str, Any]]) -> Facts:
        """What shapes the lexicon."""
        settings = flat("phrases", self._config.phrases.model_dump(mode="json"))
        settings |= {
            "language": primary_language(self._config.language),
            "phrases.lowercase": self._lowercase,
            "phrases.longest": self._config.phrases.most_words,
            "phrases.splits": self._splits,
            "phrases.stop": sorted(self._stop),
            "phrases.links": self._links,
        }
        given = self._given and report.facts_of(self._given)
        identities = {"model": {"name": Path(self._given).name, **given}} if self._given and given else {}
        return Facts(settings, identities, inputs=engine.undated(inputs))

    def _estimation(self, source: Source, blocks: list[Block], inputs: list[dict[str, Any]]) -> Estimation:
        """What counts; its folder tells by its name what it is of, and what is of other work goes."""
        phrases = self._config.phrases
        counted = phrases.model_dump(mode="json", exclude=_CHOICE)
        name = facts_hash(
            [
                ngram_settings.CODE_VERSION,
                CODE_VERSION,
                source.fingerprint,
                counted,
                self._splits,
                inputs,
                bool(self._given),
            ]
        )
        for other in files.list_names(self._work):
            if other not in (name, _INPUTS, "lock", folders.WRITING):
                files.remove(files.join(self._work, other))
        return Estimation(
            source,
            blocks,
            files.join(self._work, name),
            phrases.most_words if self._given else phrases.order,
            () if self._given else phrases.prune,
            phrases.discount_fallback or (FALLBACK if self._given else None),
            inputs,
            longest=phrases.most_words,
            min_count=phrases.min_count,
            stand_in=STAND_IN,
        )

    def _make(self, estimation: Estimation, facts: Facts, fingerprint: str) -> Result:
        """Model, lexicon, report and last the manifest."""
        target = files.join(estimation.folder if self._given else self.folder, MODEL)
        outcome = self._estimate(estimation, target)
        if self._config.phrases.text == "lines":
            refusals.refuse_changed(estimation.inputs, estimation.blocks)
        fell: Counter[str] = Counter()
        self._say(f"{FOLDER}, score: with {legible(self._given or target)}")
        model, vocabulary = self._model or Model(self._given or target), estimation.vocabulary()
        rules = WordRules(vocabulary, self._config.phrases.words, self._stop, self._links)
        scored = candidates(estimation.frequent(), vocabulary, rules, model, fell)
        found = select(scored, self._config.phrases, vocabulary, fell)
        about = {"order": model.order, **asdict(outcome)}
        if self._given:  # of the corpus as much as was counted
            of_text = ("order", "sentences", "words", "special_words", "vocabulary")
            about = {**{name: about[name] for name in of_text}, **facts.identities["model"]}
        report.write(self.folder, found, fell, about)
        names = [PHRASES, REPORT, *([] if self._given else [MODEL])]
        result = Result(
            fingerprint=fingerprint,
            phrases=len(found.phrases.counts),
            model=about,
            files={name: report.facts_of(files.join(self.folder, name)) for name in names},
            settings=dict(facts.settings),
            identities=dict(facts.identities),
            inputs=[dict(item) for item in facts.inputs],
            versions={**engine.package_versions(), "kenlm": version("kenlm")},
        )
        with files.write_atomic(files.join(self.folder, MANIFEST)) as sink:
            sink.write(result.to_json())
        estimation.clear()
        if about.get("fell_back") and outcome.words:
            orders = ", ".join(map(str, outcome.fell_back))
            self._say(f"the discounts of order {orders} are those of phrases.discount_fallback", "yellow")
        best = found.phrases.rows(0, report.BEST)
        report.show(self._options.console, self.folder, best, fell, result.phrases)
        return result

    def _estimate(self, estimation: Estimation, target: str) -> Outcome:
        """Make the model."""

        def execute(title: str, run: engine.Run) -> list[engine.BlockRecord]:
            return watched.execute(f"{FOLDER}, {title}", run, self._options)

        files.make_dirs(estimation.folder)
        try:
            return estimation.run(target, execute)
        except DiscountError as error:
            raise engine.RunError(
                f"{error} In the config: `phrases.discount_fallback: {list(FALLBACK)}`."
            ) from None

    def _say(self, message: str, style: str = "") -> None:
        self._options.console.print(Text(message, style))


def _json(facts: Any) -> bytes:
    return json.dumps(facts, ensure_ascii=False, sort_keys=True).encode()
