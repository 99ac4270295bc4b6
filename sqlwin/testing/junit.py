"""Results of cases as JUnit XML."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree

from sqlwin.testing.running import CaseResult


def junit_xml(results: Sequence[CaseResult]) -> str:
    """Return the results as JUnit XML: a suite per file, a test case per case."""
    root = ElementTree.Element("testsuites", name="sqlwin")
    for path, of_file in groupby(results, key=lambda result: result.case.path):
        cases = list(of_file)
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=str(path),
            tests=str(len(cases)),
            failures=str(sum(bool(result.failures) for result in cases)),
            errors=str(sum(result.error is not None for result in cases)),
            skipped="0",
            time=f"{sum(result.seconds for result in cases):.3f}",
        )
        for result in cases:
            _add(suite, result)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add(suite: ElementTree.Element, result: CaseResult) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=str(result.case.path),
        name=result.case.name,
        file=str(result.case.path),
        line=str(result.case.line),
        time=f"{result.seconds:.3f}",
    )
    for failure in result.failures:
        title = failure.partition("\n")[0]
        ElementTree.SubElement(case, "failure", message=title).text = _printable(failure)
    if result.error is not None:
        ElementTree.SubElement(case, "error", message=_printable(result.error))
    if result.notes:
        ElementTree.SubElement(case, "system-out").text = _printable("\n".join(result.notes))


def _printable(text: str) -> str:
    """Return a text without characters that XML forbids."""
    return "".join(c for c in text if c in "\n\t" or c >= " ")
