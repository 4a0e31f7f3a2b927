"""Modules from outside: found, signed, refused, loaded; the program that uses them does not change."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lwmq_spark import LwmqError, modules
from lwmq_spark.cli import main

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "native" / "samples" / "module"


def build(target: Path, *flags: str, sources: tuple[Path, ...] = (*sorted(SAMPLE.glob("*.c")),)) -> Path:
    command = ["gcc", "-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += ["-fvisibility=hidden", f"-I{ROOT / 'native' / 'include'}", *flags, *map(str, sources)]
    subprocess.run([*command, "-o", str(target)], check=True, timeout=60)
    return target


class Place:
    """A folder of modules, a key and a trust file."""

    def __init__(self, folder: Path) -> None:
        self.modules = folder / "modules"
        self.modules.mkdir()
        self.more = ""  # of the path
        self.trust = folder / "trusted_keys"
        self.key = folder / "secret.key"
        self.make_key(self.key, self.trust, "tester")

    @staticmethod
    def make_key(key: Path, trust: Path, name: str) -> None:
        made = subprocess.run(
            [sys.executable, "-m", "lwmq_spark.cli", "module", "key", str(key), "--name", name],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        trust.write_text(f"# who may\n\n{made.stdout}")
        trust.chmod(0o644)

    def sign(self, module: Path, key: Path | None = None, days: float = 1.0) -> None:
        modules.sign(module, key or self.key, datetime.now(UTC) + timedelta(days=days))

    def run(self, program: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "LWMQ_MODULE_PATH": f"/nowhere-at-all:{self.modules}{self.more}",
            "LWMQ_MODULE_TRUST": str(self.trust),
        }
        return subprocess.run(
            [sys.executable, "-c", program],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def listing(self) -> list[dict[str, object]]:
        ran = self.run(
            "import sys; from lwmq_spark.cli import main; sys.exit(main(['module', 'list', '--json']))"
        )
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)["modules"]
        for module in found:
            if not module["loaded"]:  # refused and logged
                assert f"lwmq: module {module['path']} is refused: {module['text']}" in ran.stderr
        return list(found)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# What any application does: it knows nothing of modules.
CONVERSATION = """
import lwmq_spark as lwmq
from lwmq_spark.channel import limits
at = {address!r}
with lwmq.Listener(at) as listener, lwmq.Channel(at, "client") as client:
    served = listener.accept(60)
    answers = served.send_queue()
    questions = client.send_queue()
    for number in range(1000):
        questions.post(b"question %d" % number)
    for _ in range(1000):
        answers.post(bytes(served.receive(60)).replace(b"question", b"answer"))
    said = [bytes(client.receive(60)).decode() for _ in range(1000)]
    print(limits(at).buffer_bytes_max, said == [f"answer {{n}}" for n in range(1000)])
"""


@pytest.mark.row("L36")
@pytest.mark.row("L39")
def test_a_signed_module_registers_its_scheme_and_its_filters(place: Place) -> None:
    place.sign(build(place.modules / "toy.so"))
    (module,) = place.listing()
    assert (module["loaded"], module["signer"], module["name"]) == (True, "tester", "toy")
    ran = place.run(CONVERSATION.format(address="toy://place"))
    assert ran.stdout == f"{1 << 24} True\n", ran.stderr
    ran = place.run(
        "import lwmq_spark as lwmq\n"
        "from lwmq_spark.channel import providers, filters\n"
        "print(providers()[0], 'upper' in filters())\n"
        "with lwmq.Channel('upper+toy://x', 'server') as one, lwmq.Channel('toy://x', 'client') as other:\n"
        "    one.send_queue().post(b'hello')\n"
        "    print(bytes(other.receive(60)).decode())\n"
    )
    assert ran.stdout == "toy True\nHELLO\n", ran.stderr
    ran = place.run(
        "import lwmq_spark as lwmq\n"
        "with lwmq.Channel('toy://x', 'server') as one:\n"
        "    with lwmq.Channel('toy://x?label=blue&retry=50ms', 'client') as other:\n"
        "        other.wait_connected(60)\n"
        "    try:\n"
        "        one.receive(60)\n"
        "    except lwmq.ClosedError as error:\n"
        "        print(str(error).split(' of ')[0])\n"
        "try:\n"
        "    lwmq.Channel('toy://x?lable=blue')\n"
        "except lwmq.AddressError as error:\n"
        "    print(str(error).split(': ')[-1])\n"
    )
    assert ran.stdout == "the peer, blue\ndid you mean 'label'?\n", ran.stdout + ran.stderr


@pytest.mark.row("L37")
@pytest.mark.parametrize("scheme", ["loop://", "ipc://"])
def test_a_module_takes_the_scheme_of_a_provider_that_is_built_in(place: Place, scheme: str) -> None:
    program = CONVERSATION.format(address=f"{scheme}of-the-module-{os.getpid()}")
    before = place.run(program)
    place.sign(build(place.modules / "mine.so", f'-DTOY_SCHEME="{scheme}"'))
    after = place.run(program)
    largest, said = before.stdout.split()
    assert (int(largest) > 1 << 24, said) == (True, "True"), before.stderr
    assert after.stdout == f"{1 << 24} True\n", after.stderr


@pytest.mark.row("L36")
def test_the_texts_of_a_module_reach_the_application(place: Place) -> None:
    place.sign(build(place.modules / "toy.so"))
    for address, text in {
        "toy://": "toy://: a name of 1 to 100 bytes stands behind toy://, not 0",
        "upper=loudly+toy://x": "upper=loudly: it has no settings",
    }.items():
        ran = place.run(
            "import lwmq_spark as lwmq\n"
            "try:\n"
            f"    lwmq.Channel({address!r}, 'server')\n"
            "except lwmq.LwmqError as error:\n"
            "    print(error)\n"
        )
        assert text in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.row("L39")
@pytest.mark.parametrize(
    ("file", "entry", "flaw"),
    [
        (
            "toy_provider.c",
            ".land = land,",
            "provider 'toy' is not complete: missing or wrong is transport.land",
        ),
        (
            "toy_provider.c",
            ".close = close_listener,",
            "provider 'toy' is not complete: missing or wrong is listener.close",
        ),
        (
            "toy_provider.c",
            ".claim = claim,",
            "provider 'toy' is not complete: missing or wrong is claim",
        ),
        (
            "toy_provider.c",
            ".version = LWMQ_TLI_VERSION,",
            "missing or wrong is version",
        ),
        ("toy_module.c", ".see = see_upper,", "filter 'upper' is not complete: missing or wrong is see"),
    ],
)
def test_a_module_with_a_hole_in_a_table_is_refused_and_told_where(
    place: Place, tmp_path: Path, file: str, entry: str, flaw: str
) -> None:
    sources = []
    for source in sorted(SAMPLE.glob("*.c")):
        text = source.read_text(encoding="utf-8")
        if source.name == file:
            assert entry in text
            text = text.replace(entry, "")
        sources.append(tmp_path / source.name)
        sources[-1].write_text(text)
    place.sign(build(place.modules / "holes.so", "-w", sources=tuple(sources)))
    (module,) = place.listing()
    assert module["status"] == "LWMQ_E_UNSUPPORTED"
    assert flaw in str(module["text"])


WINDOWS = ("create", "export_to", "find", "info", "owner_alive", "keep", "release")
GRANTS = ("pin", "unpin", "grant", "revoke", "push", "reap")


def toy_with_memory(folder: Path, calls: list[str]) -> tuple[Path, ...]:
    """The sources of the toy, whose memory table has these calls, which nobody may make."""
    entries = "".join(f"    .{call} = (void *)claim,\n" for call in calls)
    table = f"static const lwmq_tli_memory_table memory_table = {{\n{entries}}};\n\n"
    text = (SAMPLE / "toy_provider.c").read_text(encoding="utf-8")
    head, entry = "static const lwmq_tli_provider toy = {", "    .transport = &transport_table,\n"
    assert head in text and entry in text
    text = text.replace(head, table + head).replace(entry, f"{entry}    .memory = &memory_table,\n")
    (folder / "toy_provider.c").write_text(text)
    return folder / "toy_provider.c", SAMPLE / "toy_module.c"


@pytest.mark.row("L39")
@pytest.mark.parametrize("missing", [*WINDOWS, *GRANTS])
def test_a_provider_has_all_calls_for_windows_or_none_and_all_for_grants_or_none(
    place: Place, tmp_path: Path, missing: str
) -> None:
    group = WINDOWS if missing in WINDOWS else GRANTS
    for number, calls in enumerate([group, WINDOWS + GRANTS]):
        sources = toy_with_memory(tmp_path, [call for call in calls if call != missing])
        place.sign(build(place.modules / f"{number}.so", "-w", "-Wno-pedantic", sources=sources))
    for module in place.listing():
        assert module["status"] == "LWMQ_E_UNSUPPORTED"
        assert f"missing or wrong is memory.{missing}" in str(module["text"])


@pytest.mark.row("L39")
def test_a_memory_table_without_any_call_is_refused(place: Place, tmp_path: Path) -> None:
    place.sign(build(place.modules / "empty.so", "-w", sources=toy_with_memory(tmp_path, [])))
    (module,) = place.listing()
    assert "missing or wrong is memory, which is empty" in str(module["text"])


@pytest.mark.row("L39")
def test_a_provider_with_grants_alone_is_loaded_and_shares_no_windows(place: Place, tmp_path: Path) -> None:
    place.sign(build(place.modules / "grants.so", "-w", sources=toy_with_memory(tmp_path, [*GRANTS])))
    (module,) = place.listing()
    assert module["loaded"], module["text"]
    ran = place.run(
        "import lwmq_spark as lwmq\n"
        "for open_end in (lwmq.Endpoint, lwmq.open_reader):\n"
        "    try:\n"
        "        open_end('toy://x')\n"
        "    except lwmq.LwmqError as error:\n"
        "        print(error)\n"
    )
    assert ran.stdout.count("streams need a transport that shares windows; toy does not") == 2, ran.stderr


@pytest.mark.row("L39")
def test_what_is_not_signed_as_it_is_by_a_trusted_key_is_refused(place: Place, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.key"
    Place.make_key(stranger, tmp_path / "other_trust", "stranger")
    plain = build(place.modules / "a_unsigned.so")
    tampered = Path(shutil.copy(plain, place.modules / "b_tampered.so"))
    place.sign(tampered)
    with tampered.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    expired = Path(shutil.copy(plain, place.modules / "c_expired.so"))
    place.sign(expired, days=-1)
    wrongly = Path(shutil.copy(plain, place.modules / "d_wrongly.so"))
    place.sign(wrongly, stranger)
    renamed = Path(shutil.copy(plain, place.modules / "e_renamed.so"))
    shutil.copy(f"{expired}.sig", f"{renamed}.sig")
    later = Path(shutil.copy(plain, place.modules / "f_prolonged.so"))
    place.sign(later, days=-1)
    signature = Path(f"{later}.sig")
    signature.write_text(re.sub("expires [0-9]+", "expires 99999999999", signature.read_text()))
    torn = Path(shutil.copy(plain, place.modules / "g_torn.so"))
    place.sign(torn)
    torn_signature = Path(f"{torn}.sig")
    torn_signature.write_text(torn_signature.read_text()[:-10])
    good = Path(shutil.copy(plain, place.modules / "h_good.so"))
    place.sign(good)

    reasons = [
        "not signed: a_unsigned.so.sig cannot be read",
        "tampered: its bytes are not those that tester has signed",
        "the signature has expired",
        "which is none of the 1 in the trust file",
        "the signature is of c_expired.so, not of e_renamed.so",
        "the signature is not of this key and these bytes",
        "its line 'signature' is missing or wrong",
    ]
    found = place.listing()
    assert [module["loaded"] for module in found] == [False] * 7 + [True]
    for module, reason in zip(found, reasons, strict=False):
        assert reason in str(module["text"])


@pytest.mark.row("L39")
def test_a_trust_file_that_others_may_write_to_trusts_nobody(place: Place) -> None:
    place.sign(build(place.modules / "toy.so"))
    place.trust.chmod(0o666)
    (module,) = place.listing()
    assert "others than root and this user may write to the trust file" in str(module["text"])
    place.trust.unlink()
    (module,) = place.listing()
    assert "no key is trusted" in str(module["text"])


@pytest.mark.row("L39")
def test_verify_says_what_loading_would_and_needs_no_environment(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    module = build(place.modules / "toy.so")
    assert main(["module", "verify", str(module), "--trust", str(place.trust)]) == 1
    assert "not signed" in capsys.readouterr().err
    place.sign(module)
    capsys.readouterr()
    assert main(["module", "verify", str(module), "--trust", str(place.trust), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["status"], said["signer"]) == ("LWMQ_OK", "tester")
    assert (place.key.stat().st_mode & 0o777) == 0o600
    assert main(["module", "key", str(place.key)]) == 1, "a key is never written over"


@pytest.mark.row("L39")
def test_a_program_makes_keys_signs_and_verifies(place: Place, tmp_path: Path) -> None:
    module = build(place.modules / "toy.so")
    public = modules.make_key(tmp_path / "own.key")
    trust = tmp_path / "own_trust"
    trust.write_text(f"ed25519 {public} bob\n")
    assert modules.verify(module, trust).status == "LWMQ_E_DENIED"
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    modules.sign(module, tmp_path / "own.key", expires)
    found = modules.verify(module, trust)
    assert (found.status, found.signer, found.key) == ("LWMQ_OK", "bob", public)
    assert (found.expires, found.path, found.loaded) == (expires, str(module), False)
    modules.sign(module, tmp_path / "own.key", datetime.now(UTC) - timedelta(hours=1))
    assert "expired" in modules.verify(module, trust).text
    assert modules.verify(tmp_path / "nowhere.so", trust).status != "LWMQ_OK"
    with pytest.raises(LwmqError, match=r"own\.key"):
        modules.make_key(tmp_path / "own.key")
    assert modules.modules() == []


@pytest.mark.row("L39")
def test_what_is_no_module_is_refused_though_it_is_signed(place: Place, tmp_path: Path) -> None:
    for name, text in {
        "plain": "int nothing;",
        "short_of": "int missing(void); int here(void) { return missing(); }",
    }.items():
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        made = place.modules / f"{name}.so"
        subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(made)], check=True, timeout=60)
        place.sign(made)
    first, second = place.listing()
    assert "LWMQ_TLI_MODULE is missing" in str(first["text"])
    assert "the loader refuses it" in str(second["text"])


@pytest.mark.row("L39")
def test_what_is_no_shared_object_is_not_signed(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    text = place.modules / "text.so"
    text.write_text("no shared object, but longer than the header of one would be: sixty-four bytes\n")
    assert main(["module", "sign", str(text), "--key", str(place.key)]) == 1
    assert "it is no shared object of 64 bits" in " ".join(capsys.readouterr().err.split())


@pytest.mark.row("L39")
def test_a_module_that_is_cut_off_is_refused_before_the_loader_reads_behind_its_end(
    place: Place,
) -> None:
    whole = build(place.modules / "whole.so")
    place.sign(whole)
    for share in (0.02, 0.3, 0.99):
        cut = place.modules / f"cut_{share}.so"
        cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * share)])
        with pytest.raises(LwmqError, match="headers speak of more: copy it anew"):
            place.sign(cut)
        # Signed before this was looked at.
        body = (place.modules / "whole.so.sig").read_text()
        Path(f"{cut}.sig").write_text(body)
    assert [module["loaded"] for module in place.listing()] == [False] * 3 + [True]


@pytest.mark.row("L39")
def test_signing_writes_to_nothing_that_was_there(place: Place, tmp_path: Path) -> None:
    module = build(place.modules / "toy.so")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("toy.so.sig", "toy.so.sig.new"):
        (place.modules / name).symlink_to(victim)
    place.sign(module)
    assert victim.read_text() == "mine"
    (found,) = place.listing()
    assert found["loaded"]


@pytest.mark.row("L36")
def test_a_folder_that_is_named_twice_is_looked_through_once(place: Place) -> None:
    place.sign(build(place.modules / "toy.so"))
    place.more = f":{place.modules}/"
    assert len(place.listing()) == 1


@pytest.mark.row("L36")
def test_any_number_of_providers_of_modules_leave_the_built_in_ones_as_they_are(place: Place) -> None:
    """Each of 40 tables comes before `ipc`, whose service has to run all the same."""
    for number in range(40):
        place.sign(build(place.modules / f"m{number}.so", f'-DTOY_SCHEME="toy{number}://"'))
    ran = place.run(CONVERSATION.format(address=f"ipc://beside-many-{os.getpid()}"))
    assert ran.stdout.endswith(" True\n"), ran.stderr
    ran = place.run(CONVERSATION.format(address="toy39://last"))
    assert ran.stdout == f"{1 << 24} True\n", ran.stderr


@pytest.mark.row("L36")
@pytest.mark.parametrize("address", ["toy://", "trace=/dev/null+toy://"])
def test_a_failure_without_a_text_has_one_of_who_gave_none(
    place: Place, tmp_path: Path, address: str
) -> None:
    provider = tmp_path / "silent.c"
    text = (SAMPLE / "toy_provider.c").read_text(encoding="utf-8")
    provider.write_text(re.sub(r"return lwmq_tli_fail\((\w+),[^;]*\);", r"return \1;", text))
    sources = (SAMPLE / "toy_module.c", provider)
    place.sign(build(place.modules / "silent.so", "-w", sources=sources))
    ran = place.run(
        "import lwmq_spark as lwmq\n"
        "try:\n"
        "    lwmq.Channel('nobody://x', 'server')\n"
        "except lwmq.LwmqError:\n"
        "    pass\n"
        "try:\n"
        f"    lwmq.Channel({address!r}, 'server')\n"
        "except lwmq.LwmqError as error:\n"
        "    print(error)\n"
    )
    assert "toy://: provider 'toy' answers LWMQ_E_ADDRESS without a text" in ran.stdout, ran.stdout
