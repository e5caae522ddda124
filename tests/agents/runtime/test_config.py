# SPDX-License-Identifier: Apache-2.0
"""Settings: where they come from, and what a mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.runtime.config import AgentSettings, describe_settings, load_settings
from agents.runtime.errors import ConfigError


def write(tmp_path, text, name="agent.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_defaults_need_no_file():
    settings = load_settings()
    assert settings.rpc_url == "http://127.0.0.1:8545" and settings.trainer.register_stake is None


def test_flags_beat_environment_beats_file_beats_defaults(tmp_path, monkeypatch):
    path = write(
        tmp_path,
        'job_id = 2\ndevice = "cpu"\nmetrics_port = 9\n'
        "[trainer]\nregister_stake = 2\ncompile = true\n",
    )
    monkeypatch.setenv("MENAGERIE_JOB_ID", "3")
    monkeypatch.setenv("MENAGERIE_METRICS_PORT", "10")
    monkeypatch.setenv("MENAGERIE_TRAINER__REGISTER_STAKE", "3")
    settings = load_settings(path, {"job_id": "4", "log_level": None, "trainer.register_stake": 5})
    assert (settings.job_id, settings.metrics_port, settings.device) == (4, 10, "cpu")
    assert (settings.trainer.register_stake, settings.trainer.compile) == (5, True)
    assert settings.log_level == "info"


def test_a_yaml_file_is_read_like_a_toml_file(tmp_path):
    text = "job_id: 5\ndata_dir: /data\ncoordinator:\n  peers: [http://a, http://b]\n"
    settings = load_settings(write(tmp_path, text, "agent.yaml"))
    assert settings.job_id == 5 and settings.data_dir == Path("/data")
    assert settings.coordinator.peers == ["http://a", "http://b"]
    assert load_settings(write(tmp_path, "", "empty.yml")).job_id == 0


KNOWN = r"agent\.toml.*Known settings: rpc_url, ws_url,"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('rpc_ulr = "x"', rf"Unknown setting 'rpc_ulr' in .*{KNOWN}"),
        ("[trainer]\nthread = 1", rf"Unknown setting 'trainer\.thread' in .*{KNOWN}"),
        ("[trainr]\nregister_stake = 1", rf"setting 'trainr\.register_stake' in .*{KNOWN}"),
        ('passphrase = "x"', rf"Unknown setting 'passphrase' in .*{KNOWN}"),
        ('rpc_ulr = "x"', "Did you mean 'rpc_url'"),
        ("[redundant]\njoint = false\n", r"executor\.joint.*mean 'executor\.join'"),
    ],
)
def test_unknown_names_in_a_file_are_refused(tmp_path, text, words):
    with pytest.raises(ConfigError, match=f"(?s){words}"):
        load_settings(write(tmp_path, text))


def test_an_unknown_flag_is_refused():
    with pytest.raises(ConfigError, match="'speed' in the command line"):
        load_settings(flags={"speed": 1})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("MENAGERIE_JOBID", r"'jobid' in \$MENAGERIE_JOBID.*mean 'job_id'"),
        ("MENAGERIE_REDUNDANT__JOINT", "MENAGERIE_REDUNDANT__JOINT"),
    ],
)
def test_an_unknown_variable_is_refused(monkeypatch, name, words):
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=words):
        load_settings()


def test_variables_that_are_no_settings_are_left_alone(monkeypatch):
    monkeypatch.setenv("MENAGERIE_CRASH_AT", "nowhere")
    monkeypatch.setenv("MENAGERIE_PASSPHRASE_7", "x")
    monkeypatch.setenv("MENAGERIE_KEY_WORD", "x")
    settings = load_settings(flags={"passphrase_env": "MENAGERIE_KEY_WORD"})
    assert settings.passphrase_env == "MENAGERIE_KEY_WORD"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job_id = -1", "job_id: Input should be greater than or equal to 0 .it is -1"),
        ("metrics_port = 70000", "metrics_port: .* 65535"),
        ('rpc_url = "localhost:8545"', "rpc_url: must start with http"),
        ('ws_url = "http://x"', "ws_url: must start with ws"),
        ('log_level = "loud"', "log_level: .*'debug', 'info'"),
        ("trainer = 3", "trainer: .*it is 3"),
        ("[trainer]\nregister_stake = 0", r"trainer\.register_stake: "),
        ("job_id = ", "cannot be used"),
        ("a = b = c", "cannot be used"),
    ],
)
def test_wrong_values_are_named(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        load_settings(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no settings file"):
        load_settings(tmp_path / "none.toml")
    for name, text in (("a.ini", "x"), ("a.yaml", "- 1\n- 2"), ("b.yaml", "a: [")):
        with pytest.raises(ConfigError, match=name):
            load_settings(write(tmp_path, text, name))


def test_every_setting_has_a_line_of_help():
    infos = describe_settings()
    assert len({info.name for info in infos}) == len(infos) > 30
    for info in infos:
        assert 5 < len(info.help) < 90 and "\n" not in info.help, info.name


def test_settings_cannot_change_under_a_running_agent():
    with pytest.raises(ValueError, match="frozen"):
        AgentSettings().job_id = 3


def test_a_section_is_read_under_its_former_name(tmp_path, monkeypatch):
    """A settings file and variables of a node that ran tasks before its role was renamed."""
    old = write(tmp_path, "[redundant]\njoin = false\nappeal = false\n", "old.toml")
    settings = load_settings(old)
    assert (settings.executor.join, settings.executor.appeal) == (False, False)
    assert settings.executor.with_training is False
    monkeypatch.setenv("MENAGERIE_REDUNDANT__APPEAL", "true")
    assert load_settings(old).executor.appeal is True
    monkeypatch.setenv("MENAGERIE_REDUNDANT", '{"with_training": true}')
    settings = load_settings(old, {"redundant.join": "true"})
    assert settings.executor.model_dump() == {"join": True, "with_training": True, "appeal": True}


def test_given_under_both_names_the_new_one_counts(tmp_path, monkeypatch):
    both = "[redundant]\njoin = false\nappeal = false\n[executor]\njoin = true\n"
    settings = load_settings(write(tmp_path, both))
    assert (settings.executor.join, settings.executor.appeal) == (True, False)
    monkeypatch.setenv("MENAGERIE_REDUNDANT__JOIN", "true")
    monkeypatch.setenv("MENAGERIE_EXECUTOR__JOIN", "false")
    assert load_settings().executor.join is False
