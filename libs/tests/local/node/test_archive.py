"""An image of one program is what the specification of images says."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from kai_local.node import archive


def test_all_that_an_archive_refers_to_is_in_it_as_described(tmp_path: Path) -> None:
    (tmp_path / "pause").write_bytes(b"a program")
    archive.write(
        tmp_path / "pause.tar", image="localhost/pause:1", program=tmp_path / "pause", machine="x86_64"
    )
    with tarfile.open(tmp_path / "pause.tar") as tar:
        files = {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "localhost/pause:1"

    def blob(reference: dict[str, str]) -> bytes:
        content = files[f"blobs/sha256/{reference['digest'].removeprefix('sha256:')}"]
        assert reference["size"] == len(content)
        assert reference["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        return content

    manifest = json.loads(blob(described))
    config, (layer,) = json.loads(blob(manifest["config"])), manifest["layers"]
    assert config["architecture"] == "amd64"
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    with tarfile.open(fileobj=io.BytesIO(blob(layer))) as tar:
        (entry,) = tar
        assert (entry.name, entry.mode) == ("pause", 0o755)
    assert config["config"]["Entrypoint"] == ["/pause"]
