"""What is made from the code is what the code makes."""

import importlib.util
from pathlib import Path

import pytest

GENERATOR = Path(__file__).parent.parent / "docs" / "generate.py"


def generated():
    spec = importlib.util.spec_from_file_location("generate_docs", GENERATOR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


@pytest.mark.parametrize("item", generated().items(), ids=lambda item: item[0].name)
def test_generated_documents_are_up_to_date(item):
    path, text = item
    assert path.read_text("utf-8") == text, "run: make docs"
