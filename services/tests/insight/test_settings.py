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


@pytest.mark.parametrize("listen", ["127.0.0.1:9092", "[::1]:9092", "localhost:9092", ""])
def test_without_tls_questions_over_http_are_taken_on_loopback(listen):
    assert InsightSettings.parse([f"--http-listen={listen}"]).http_listen == listen


@pytest.mark.parametrize("listen", [":9092", "9092", "0.0.0.0:9092", "10.0.0.1:9092", "[::]:9092"])
def test_tokens_do_not_go_over_a_network_without_tls(listen):
    with pytest.raises(
        SettingsError, match=r"would take tokens without TLS: give --tls-ca.*127\.0\.0\.1:9092"
    ):
        InsightSettings.parse([f"--http-listen={listen}"])
    tls = ["--tls-ca=ca", "--tls-cert=cert", "--tls-key=key"]
    assert InsightSettings.parse([f"--http-listen={listen}", *tls]).http_listen.endswith(":9092")
