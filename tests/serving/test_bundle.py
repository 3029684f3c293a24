"""Modules as one classic script: each once, after what it imports, and nothing that a bundle does not understand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import homefold.serving
from homefold.serving.standalone.bundle import bundle

PAGE = Path(homefold.serving.__file__).parent / "page"


def test_a_module_stands_once_after_those_that_it_imports() -> None:
    found = bundle(
        {
            "app": 'import { one, two as second } from "./a.js";\nimport { three } from "./b.js";\none();\n',
            "b": 'import { one } from "./a.js";\nexport const three = one();\n',
            "a": "export function one() {}\nexport async function two() {}\nexport class Four {}\nlet five;\n",
            "unused": "export const six = 6;\n",
        },
        "app",
    )
    assert re.findall(r"const (module_\w+) = \(", found) == ["module_a", "module_b", "module_app"]
    assert "return { one, two, Four };" in found
    assert "const { one, two: second } = module_a;" in found
    assert not re.search(r"^(import|export) ", found, re.MULTILINE)
    assert "six" not in found


def test_names_over_several_lines_are_imported_too() -> None:
    found = bundle({"app": 'import {\n  one,\n  two,\n} from "./a.js";\n', "a": ""}, "app")
    assert "const { one, two, } = module_a;" in found


@pytest.mark.parametrize(
    "line",
    [
        "export default function () {}",
        'import * as all from "./a.js";',
        'import "./a.js";',
        'export { one } from "./a.js";',
        'const later = await import("./a.js");',
        "await one();",
        "const here = import.meta.url;",
        'import { one } from "https://elsewhere.example/a.js";',
    ],
)
def test_what_no_bundle_understands_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"app\.js has a line"):
        bundle({"app": f"{line}\n", "a": ""}, "app")


def test_modules_that_import_each_other_are_refused() -> None:
    one, other = (f'import {{ x }} from "./{name}.js";\nexport const y = 1;\n' for name in "ba")
    with pytest.raises(ValueError, match="a b a"):
        bundle({"a": one, "b": other}, "a")


def test_the_page_bundles_with_each_name_that_it_imports_exported_somewhere() -> None:
    modules = {file.stem: file.read_text(encoding="utf-8") for file in PAGE.glob("*.js")}
    found = bundle(modules, "app")
    for names, module in re.findall(r"const \{ ([^}]+) \} = module_(\w+);", found):
        exported = re.search(rf"const module_{module} = .*?^return \{{ ([^}}]*) \}};$", found, re.DOTALL | re.MULTILINE)
        assert exported is not None
        asked = {name.split(":")[0].strip() for name in names.split(",") if name.strip()}
        assert asked <= set(exported[1].split(", "))
