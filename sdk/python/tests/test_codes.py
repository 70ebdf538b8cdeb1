"""Words and codes that the API documents define are those of the server and of the vectors."""

from __future__ import annotations

import json
import urllib.request
from typing import Any, get_args

import pytest

from conftest import VECTORS
from forgerun import _codes
from forgerun.testing import DevServer
from forgerun.workflows import FailurePolicy, When

WITHOUT_CANONICAL = {
    "RFA_REQUEST_METHOD_NOT_ALLOWED",
    "RFA_REQUEST_NOT_ACCEPTABLE",
    "RFA_REQUEST_PRECONDITION_FAILED",
    "RFA_STORAGE_CONTENT_UNREADABLE",
    "RFA_EXEC_BATCH_PARTIAL",
}


@pytest.fixture(scope="module")
def document(server: DevServer) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.url}/openapi.json") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.fixture(scope="module")
def schemas(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"]
    return found


def test_states_are_those_of_the_server(schemas: dict[str, Any]) -> None:
    assert list(_codes.STATES) == schemas["State"]["enum"]
    assert _codes.FINAL_STATES < set(_codes.STATES)
    outcomes = [outcome for outcome in schemas["Job"]["properties"]["outcome"]["enum"] if outcome]
    assert len(_codes.FINAL_STATES) == len(outcomes)


def test_codes_are_those_of_the_server(schemas: dict[str, Any]) -> None:
    known = set(schemas["Codes"]["properties"]["rfa_code"]["enum"])
    assert _codes.CANONICAL_OF_RFA.keys() | WITHOUT_CANONICAL == known
    assert set(_codes.CANONICAL_OF_RFA.values()) <= _codes.CODES.keys()


def test_canonical_codes_are_those_of_the_vectors() -> None:
    expected = [case["expect"] for case in json.loads((VECTORS / "errors.json").read_text())["cases"]]
    canonical = {expect["canonical"] for expect in expected if expect and expect["canonical"]}
    assert _codes.CODES.keys() == canonical


def test_words_of_workflows_are_those_of_the_server(schemas: dict[str, Any]) -> None:
    assert list(get_args(When)) == schemas["WorkflowStep"]["properties"]["when"]["enum"]
    assert list(get_args(FailurePolicy)) == schemas["Workflow"]["properties"]["failure_policy"]["enum"]


def test_events_that_end_a_stream_are_documented(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert [name for name in _codes.FINAL_EVENTS if name not in text] == []
