"""Small treebanks of made-up sentences, as CoNLL-U: English with `don't` (do + n't), French with `du` (de + le) and
`lui-même` (lui + -même), Chinese without spaces. A grammar of a page, so that a tiny parser learns it in seconds and
can be held to it. And real sentences, where they are there: what tiny Stanza models are trained on and held to."""

import random
from pathlib import Path

from pipelines.training.treebanks import HELD_OUT

UD = Path(__file__).parents[2] / "shared/data/ud"
_HELD_OUT = {"en": ("en_ewt/dev.conllu", 1), "zh": ("zh/gsdsimp-dev.conllu", HELD_OUT)}
"""Of each language a file and which sentences of it no parser is trained on: every so manyth."""

_WORDS = {
    "en": {
        "DET": "the a this every my",
        "ADJ": "old small red happy quiet",
        "NOUN": "dog cat child teacher bird horse friend",
        "VERB": "sees likes hears finds wants",
        "ADV": "often never quietly today",
        "ADP": "in near behind with",
    },
    "fr": {
        "DET": "le un ce mon",
        "ADJ": "petit grand rouge jeune",
        "NOUN": "chien chat voisin garçon cheval jardin",
        "VERB": "voit aime trouve cherche",
        "ADV": "souvent toujours bien",
        "ADP": "dans avec derrière",
    },
    "zh": {
        "DET": "这 那 每",
        "ADJ": "小 红 旧 安静 大",
        "NOUN": "老师 学生 朋友 猫 狗 医生 北京",
        "VERB": "喜欢 看见 找到 认识",
        "ADV": "经常 也 今天 不",
        "ADP": "在 跟 对",
    },
}


def conllu(language: str, count: int, seed: int = 0) -> str:
    """`count` sentences of `language` (en, fr or zh); one seed gives the same ones every time."""
    rng = random.Random(f"{language} {seed}")
    return "".join(_sentence(language, rng, number) for number in range(1, count + 1))


def write(folder: Path, language: str, count: int, seed: int = 0) -> Path:
    path = folder / f"{language}-{seed}.conllu"
    path.write_text(conllu(language, count, seed), encoding="utf-8")
    return path


def held_out(folder: Path, language: str, count: int) -> Path:
    """Sentences that the fixture `stanza_models` was not trained on: real ones, if it was trained on such."""
    if language not in _HELD_OUT or not UD.is_dir():
        return write(folder, language, count, seed=2)
    name, step = _HELD_OUT[language]
    sentences = (UD / name).read_text("utf-8").split("\n\n")[::step][:count]
    path = folder / f"{language}-held-out.conllu"
    path.write_text("\n\n".join(sentences) + "\n\n", "utf-8")
    return path


def _sentence(language: str, rng: random.Random, number: int) -> str:
    words: list[tuple[str, str, int, str]] = []  # form, UPOS, place of the head, relation
    ranges: dict[int, tuple[str, int]] = {}  # place of the first word: surface, words

    def pick(tag: str) -> str:
        return rng.choice(_WORDS[language][tag].split())

    def phrase(deprel: str, verb: int, case: str = "", merged: str = "") -> None:
        """(case) determiner (adjective) noun; the noun depends on `verb`, -1 for the verb to come."""
        begin = len(words)
        left: list[tuple[str, str, str]] = [(case, "ADP", "case")] if case else []
        left.append(("le" if merged else pick("DET"), "DET", "det"))
        if rng.random() < 0.5:
            left.append((pick("ADJ"), "ADJ", "amod"))
        noun = begin + len(left)
        words.extend((form, tag, noun, relation) for form, tag, relation in left)
        words.append((pick("NOUN"), "NOUN", verb, deprel))
        if merged:
            ranges[begin] = (merged, 2)

    def open_verb(place: int) -> None:
        words[:] = [(f, t, place if h == -1 else h, r) for f, t, h, r in words]

    phrase("nsubj", -1)
    if language == "fr" and rng.random() < 0.6:
        phrase("nmod", len(words) - 1, "de", "du")
    if language == "zh" and rng.random() < 0.5:  # 老师在北京看见猫: what says where stands before the verb
        phrase("obl", -1, pick("ADP"))
    if language != "fr" and rng.random() < 0.3:
        words.append((pick("ADV"), "ADV", -1, "advmod"))
    elif language == "en" and rng.random() < 0.5:
        ranges[len(words)] = ("don't", 2)
        words.append(("do", "AUX", -1, "aux"))
        words.append(("n't", "PART", -1, "advmod"))
    verb = len(words)
    words.append((pick("VERB"), "VERB", verb, "root"))
    open_verb(verb)
    if language == "fr" and rng.random() < 0.4:
        ranges[len(words)] = ("lui-même", 2)
        words.append(("lui", "PRON", verb, "obl"))
        words.append(("-même", "ADJ", verb + 1, "amod"))
    phrase("obj", verb)
    if language == "en" and rng.random() < 0.5:
        phrase("obl", verb, pick("ADP"))
    if language == "fr" and rng.random() < 0.5:
        merged = rng.random() < 0.6
        phrase("obl", verb, "à" if merged else pick("ADP"), "au" if merged else "")
    words.append(("。" if language == "zh" else ".", "PUNCT", verb, "punct"))
    if language != "zh":
        form, *rest = words[0]
        words[0] = (form.capitalize(), *rest)
    return _lines(language, words, ranges, number)


def _lines(
    language: str, words: list[tuple[str, str, int, str]], ranges: dict[int, tuple[str, int]], number: int
) -> str:
    lines = [f"# sent_id = {language}{number}"]
    last = len(words) - 1
    glued = {place for place in range(last) if language == "zh" or place == last - 1}
    for place, (form, tag, head, relation) in enumerate(words):
        if place in ranges:
            surface, size = ranges[place]
            lines.append("\t".join((f"{place + 1}-{place + size}", surface, *"________")))
        misc = "SpaceAfter=No" if place in glued else "_"
        values = (str(place + 1), form, form, tag, "_", "_", str(0 if head == place else head + 1), relation)
        lines.append("\t".join((*values, "_", misc)))
    return "\n".join((*lines, "", ""))
