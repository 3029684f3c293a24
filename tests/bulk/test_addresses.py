"""Images at addresses are answered as those on this machine, and what is wrong with an address is one sentence."""

from __future__ import annotations

import io
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from shards_scene import COUNT, FORMS, Job

from homefold.bulk.places import place_at, reaching
from homefold.bulk.sources import find_source
from homefold.errors import DataError

pytestmark = pytest.mark.slow


def address_of(path: Path) -> str:
    return f"file://{path}"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_at_an_address(job: Job, forms: dict[str, Path], form: str):
    job(forms[form], shard_size=7)
    here = job.rows()
    job.out = job.out.with_name("others")
    assert job(address_of(forms[form]), shard_size=7).images == COUNT
    for row, expected in zip(job.rows(), here, strict=True):
        assert row == {**expected, "path": f"file://{expected['path']}"}


def test_an_image_that_is_gone_is_an_error_and_a_list_may_name_addresses(
    job: Job, forms: dict[str, Path], tmp_path: Path
):
    photos = forms["csv"].parent / "photos"
    names = [address_of(photos / "000.png"), address_of(photos / "none.png"), "../photos/001.png"]
    inside = tmp_path / "lists"
    inside.mkdir()
    (tmp_path / "photos").symlink_to(photos)
    (inside / "list.csv").write_text("path\n" + "\n".join(names) + "\n")
    done = job(address_of(inside / "list.csv"))
    assert (done.images, done.unread) == (3, 1)
    assert [row["path"] for row in job.rows()] == [*names[:2], address_of(tmp_path / "photos" / "001.png")]
    assert [row["error"] for row in job.rows()] == [None, "is not there", None]


def test_what_fsspec_knows_is_read_too(job: Job, encoded: list[bytes]):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/bulk/{i}.png": content for i, content in enumerate(encoded[:3])})
    assert job("memory://bulk").images == 3
    assert [row["path"] for row in job.rows()] == [f"memory://bulk/{i}.png" for i in range(3)]


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "nowhere://bucket/photos",
            "nowhere://bucket/photos cannot be read: neither pyarrow nor fsspec knows nowhere://",
        ),
        ("file:///no/such/folder", "There is nothing at file:///no/such/folder."),
        ("file:///no/such/list.csv", "There is nothing at file:///no/such/list.csv."),
        ("file:///has blank", "file:///has blank is no valid address; a blank in it is written as %20."),
        ("file:///etc/hostname", "is no form of images that is known; expected a folder of images"),
        ("/no/such/folder", "There is no file or folder /no/such/folder."),
    ],
)
def test_what_is_wrong_with_an_address_is_a_sentence(address: str, sentence: str):
    with pytest.raises(DataError) as caught:
        list(find_source(address).images())
    assert sentence in str(caught.value)


def test_names_with_odd_characters_are_not_taken_for_parts_of_an_address(tmp_path: Path):
    (tmp_path / "50% #1 dog?.png").write_bytes(b"x")
    place = place_at(f"file://{tmp_path}")
    (found,) = find_source(f"file://{tmp_path}").images()
    assert found.name == f"file://{tmp_path}/50% #1 dog?.png"
    assert place.named(found.name).content() == b"x"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An object store that speaks S3 on the loopback address; its own address."""
    pytest.importorskip("moto", reason="an object store to test with: pip install 'moto[server]'")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    yield f"http://{host}:{port}"
    server.stop()


def put(url: str, content: bytes = b"") -> None:
    kind = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, data=content, method="PUT", headers=kind)).close()


@pytest.mark.slow
def test_images_of_an_object_store_are_answered(job: Job, forms: dict[str, Path], store: str):
    put(f"{store}/bulk")
    for form in ("folder", "bytes", "tars"):
        for file in forms[form].rglob("*.*"):
            put(f"{store}/bulk/{form}/{file.relative_to(forms[form])}", file.read_bytes())
        job.out = job.out.with_name(form)
        job(forms[form], shard_size=7)
        here = job.rows()
        job.out = job.out.with_name(f"{form} of the store")
        assert job(f"s3://bulk/{form}", shard_size=7).images == COUNT
        for row, expected in zip(job.rows(), here, strict=True):
            place = str(expected["path"]).removeprefix(str(forms[form]))
            assert row == {**expected, "path": f"s3://bulk/{form}{place}"}
    with pytest.raises(DataError, match=r"^There is nothing at s3://bulk/none\.$"):
        job("s3://bulk/none")
    with pytest.raises(DataError, match=r"^There is nothing at s3://no-such-bucket/photos"):
        job("s3://no-such-bucket/photos")


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (
            OSError("When listing objects: AWS Error ACCESS_DENIED during ListObjectsV2 operation: Access Denied."),
            "s3://bulk may not be read (ACCESS_DENIED during ListObjectsV2 operation: Access Denied); give credentials",
        ),
        (
            OSError(
                "When getting information: AWS Error NETWORK_CONNECTION during HeadObject: Could not connect; Details"
            ),
            "s3://bulk cannot be reached (NETWORK_CONNECTION during HeadObject: Could not connect); check the address",
        ),
        (FileNotFoundError("x"), "There is nothing at s3://bulk."),
        (PermissionError(13, "Permission denied"), "s3://bulk may not be read ([Errno 13] Permission denied); give"),
    ],
)
def test_what_a_store_refuses_with_is_a_sentence(raised: Exception, sentence: str):
    with pytest.raises(DataError) as caught, reaching("s3://bulk"):
        raise raised
    assert str(caught.value).startswith(sentence)


def test_a_file_is_fetched_whole(tmp_path: Path):
    content = io.BytesIO(b"0123456789" * 1000).getvalue()
    (tmp_path / "a.tar").write_bytes(content)
    place = place_at(f"file://{tmp_path}/a.tar")
    assert place.fetch(tmp_path / "b.tar").read_bytes() == content
    assert place.stamp() == place_at(f"file://{tmp_path}/a.tar").stamp()
