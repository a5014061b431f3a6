"""Answers, texts and questions of CMRC 2018 (SQuAD's layout), an object a line: of every tenth text for dev.

python cmrc_questions.py cmrc2018_trial.json FOLDER     # writes FOLDER/questions.{train,dev}.jsonl
"""

import json
import sys
from pathlib import Path

source, folder = map(Path, sys.argv[1:])
splits: dict[str, list[str]] = {"train": [], "dev": []}
texts = [text for article in json.loads(source.read_bytes())["data"] for text in article["paragraphs"]]
for number, text in enumerate(texts):
    for question in text["qas"]:
        row = {"id": question["id"], "answer": question["answers"][0]["text"], "text": text["context"]}
        line = json.dumps({**row, "question": question["question"]}, ensure_ascii=False)
        splits["train" if number % 10 else "dev"].append(line + "\n")
for split, lines in splits.items():
    (folder / f"questions.{split}.jsonl").write_text("".join(lines), encoding="utf-8")
