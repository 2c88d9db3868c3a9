"""Readers name what is wrong; the generator has the rate, the shape and the lengths that it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.api import make_scenario
from proreus.contract.scenario import PARTS
from proreus.model.errors import InputError, UsageError
from proreus.worlds.inference.datasets.generator import CONVERSATION, Load, generate
from proreus.worlds.inference.datasets.readers import (
    read_any,
    read_azure,
    read_mooncake,
    read_own,
    read_servegen,
    read_splitwise,
)
from proreus.worlds.inference.datasets.recorded import recorded
from tests.real_data import real_data


def written(folder: Path, name: str, text: str) -> Path:
    """A file of that text."""
    (folder / name).write_text(text)
    return folder / name


def test_azure_begins_with_its_first_request(tmp_path: Path) -> None:
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
        "2023-11-16 18:15:46.6805900,374,44\n"
    )
    trace = read_azure(written(tmp_path, "azure.csv", text))
    assert trace.arrival == pytest.approx([0.0, 4.314579], abs=1e-6)
    assert trace.prompt.tolist() == [374, 396] and trace.output.tolist() == [44, 109]


def test_tables_of_ones_own(tmp_path: Path) -> None:
    trace = read_any(written(tmp_path, "mine.csv", "arrival,prompt,output\n2.5,10,3\n1,20,4\n"))
    assert trace.arrival.tolist() == [1.0, 2.5] and trace.prompt.tolist() == [20, 10]
    head = "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    same = read_splitwise(written(tmp_path, "theirs.csv", head + "0,2,0,1,1,20,4\n1,2,0,2.5,1,10,3\n"))
    assert same.arrival.tolist() == [1.0, 2.5] and same.output.tolist() == [4, 3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arrival,prompt\n1,2\n", "output"),
        ("arrival,prompt,output\n1,0,3\n", "prompt"),
        ("arrival,prompt,output\n-1,5,3\n", "arrival"),
        ("arrival,prompt,output\n", "no row"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_any(written(tmp_path, "bad.csv", text))


def test_mooncake_and_its_mistakes(tmp_path: Path) -> None:
    line = '{"timestamp": 1500, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
    trace = read_mooncake(written(tmp_path, "moon.jsonl", line))
    assert (trace.arrival[0], trace.prompt[0], trace.output[0]) == (1.5, 6758, 500)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", r"2: input_length: "),
        ('{"timestamp": 1', "2: is no JSON object"),
        ("[1, 2]", "2: is no JSON object"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "2: timestamp: 'nan'"),
        ('{"timestamp": 0, "input_length": true, "output_length": 1}', "2: input_length: 'True'"),
        ('{"timestamp": 0, "input_length": 1, "output_length": -1}', "2: output_length: "),
        ('{"timestamp": 0, "input_length": 9e10, "output_length": 1}', "2: input_length: .* above"),
        (
            '{"timestamp": 0, "input_length": 999, "output_length": 1, "hash_ids": [[1]]}',
            "2: hash_ids: ",
        ),
        ('{"timestamp": 0, "input_length": 999, "output_length": 1, "hash_ids": 3}', "2: hash_ids: "),
    ],
)
def test_what_is_wrong_with_a_line_of_mooncake_is_named(text: str, says: str, tmp_path: Path) -> None:
    line = '{"timestamp": 0, "input_length": 1, "output_length": 1}\n'
    with pytest.raises(InputError, match=rf"moon\.jsonl:{says}"):
        read_mooncake(written(tmp_path, "moon.jsonl", line + text))


def test_tokens_that_32_bits_cannot_hold_are_refused_not_cut_off(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"big\.csv:2: prompt: .* above"):
        read_any(written(tmp_path, "big.csv", "arrival,prompt,output\n0,99999999999,3\n"))


@pytest.mark.parametrize(
    "text",
    [
        "arrival,prompt,output\n0,7,3\n2,5,4\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:01.5,7,3\n2023-11-16 18:00:03.5,5,4\n",
        "request_id,arrival_timestamp,prompt_size,token_size\n0,1,7,3\n1,3,5,4\n",
        '\n{"timestamp": 100, "input_length": 7, "output_length": 3}\n'
        '{"timestamp": 2100, "input_length": 5, "output_length": 4}\n',
    ],
    ids=["own", "azure", "splitwise", "mooncake"],
)
def test_a_file_of_ones_own_is_known_by_its_first_line(text: str, tmp_path: Path) -> None:
    trace = read_own(written(tmp_path, "mine", text))
    assert (trace.arrival - trace.arrival[0]).tolist() == pytest.approx([0.0, 2.0])
    assert (trace.prompt.tolist(), trace.output.tolist()) == ([7, 5], [3, 4])


def test_servegen_adds_up_its_clients(tmp_path: Path) -> None:
    written(tmp_path, "chunk-0-trace.csv", "0,1.5,8.6,Weibull,0.3,0.4\n600,0,0,,0,0\n")
    written(tmp_path, "chunk-1-trace.csv", "0,0.5,1.0,Gamma,0.3,0.4\n600,2.0,1,Gamma,0,0\n")
    assert read_servegen(tmp_path).tolist() == [2.0, 2.0]
    with pytest.raises(InputError, match="chunk"):
        read_servegen(tmp_path / "nowhere")


def test_generated_requests_have_the_rate_and_lengths_of_their_load() -> None:
    trace = generate("steady", Load(rate=20.0, seconds=3_600.0, urgent=0.8), 0)
    assert len(trace) / 3_600.0 == pytest.approx(20.0, rel=0.03)
    assert np.log(trace.prompt).mean() == pytest.approx(CONVERSATION.prompt_log_mean, abs=0.05)
    assert np.log(trace.output).std() == pytest.approx(CONVERSATION.output_log_std, abs=0.05)
    assert trace.service.mean() == pytest.approx(0.2, abs=0.02)


def test_days_swing_and_weekends_are_quiet() -> None:
    load = Load(rate=2.0, seconds=7 * 86_400.0, daily=0.6, weekly=0.5)
    hours = np.bincount((generate("week", load, 1).arrival // 3_600).astype(int), minlength=168).reshape(
        7, 24
    )
    assert hours[:5, 14].mean() / hours[:5, 2].mean() == pytest.approx(1.6 / 0.4, rel=0.1)
    assert hours[5:].mean() / hours[:5].mean() == pytest.approx(0.5, rel=0.05)


def test_bursts_are_bursts() -> None:
    plain, bursty = (
        np.diff(generate("b", Load(rate=10.0, seconds=3_600.0, variation=v), 2).arrival) for v in (1.0, 3.0)
    )
    assert plain.std() / plain.mean() == pytest.approx(1.0, abs=0.05)
    assert bursty.std() / bursty.mean() == pytest.approx(3.0, abs=0.3)


def test_a_load_that_cannot_be_is_refused() -> None:
    for field, wrong in (("rate", 0.0), ("daily", 1.0), ("urgent", 2.0), ("seconds", -1.0)):
        with pytest.raises(UsageError):
            replace(Load(), **{field: wrong})  # type: ignore[arg-type]


def test_parts_of_a_recording_share_no_moment(tmp_path: Path) -> None:
    rows = "".join(f"{second},{second + 1},{second % 7 + 1}\n" for second in range(1_000))
    path = written(tmp_path, "long.csv", "arrival,prompt,output\n" + rows)
    load = Load(rate=1.0, seconds=10_000.0)
    parts = [set(recorded("file", path, load, part, 0).prompt.tolist()) for part in PARTS]
    assert len(set.union(*parts)) == sum(map(len, parts))
    twice = recorded("file", path, Load(rate=2.0, seconds=10_000.0), "test", 0)
    assert len(twice) == 2 * len(recorded("file", path, load, "test", 0))


def test_real_recordings_are_read() -> None:
    data = real_data("llm") / "llm"
    azure = read_azure(data / "azure2023" / "AzureLLMInferenceTrace_conv.csv")
    assert len(azure) == 19_366 and azure.prompt.mean() == pytest.approx(1154.7, abs=0.1)
    assert len(read_mooncake(data / "mooncake" / "conversation_trace.jsonl")) == 12_031
    rates = read_servegen(data / "servegen" / "m-large")
    assert len(rates) == 14 * 144 and 40 < rates.min() < 60 and 550 < rates.max() < 620


def test_python_takes_a_file_by_its_name(tmp_path: Path) -> None:
    place = written(tmp_path, "mine.csv", "arrival,prompt,output\n2.5,10,3\n1,20,4\n")
    scenario = make_scenario("inference", "steady", trace=str(place))
    assert len(scenario.load(0)) == 2
