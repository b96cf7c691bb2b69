"""Where the history is may be said in a file; what cannot be one is refused at the start."""

import pytest

from kai.runtime.settings import SettingsError
from kai_insight.settings import InsightSettings


def test_the_address_may_stand_in_a_file_since_it_may_hold_a_password(tmp_path):
    (tmp_path / "url").write_text(f"sqlite:///{tmp_path}/history.db\n")
    settings = InsightSettings.parse([f"--history-url-file={tmp_path}/url"])
    settings.check()
    assert settings.database().shown == f"file {tmp_path}/history.db"


@pytest.mark.parametrize("url", ["mysql://a/b", "sqlite://", "postgresql://host/"])
def test_an_address_that_cannot_be_one_is_refused_with_its_flag(url):
    with pytest.raises(SettingsError, match=r"--history-url: .*write"):
        InsightSettings.parse([f"--history-url={url}"]).check()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match="nowhere cannot be read"):
        InsightSettings.parse([f"--history-url-file={tmp_path}/nowhere"]).check()
