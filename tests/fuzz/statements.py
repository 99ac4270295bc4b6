"""Mutated statements by number."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.corpus import Example, examples, write_data
from tests.fuzz.mutate import Mutator
from tests.fuzz.outcome import Outcome, judge, new_session


class Statements:
    """Mutated examples. The working directory must be the directory of the data."""

    def __init__(self, directory: Path) -> None:
        write_data(directory)
        self.examples = examples(directory)
        self.texts = [example.text for example in self.examples]

    def statement(self, number: int) -> tuple[Example, str]:
        """Return the example and the statement with a number."""
        mutator = Mutator(number, self.texts)
        example = mutator.random.choice(self.examples)
        return example, mutator.mutate(example.text)

    def run(self, number: int) -> tuple[Example, str, Outcome]:
        """Run the statement with a number."""
        example, text = self.statement(number)
        return example, text, judge(new_session(example.before), text)
