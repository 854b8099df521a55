"""`find_secret` names what a text would give away, and lets what only looks like it pass.

What must be found is put together from pieces here, so that no scanner takes it for real.
"""

import random
import string
import time
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amend.core.secrets import ASSIGNED, PASSWORD, find_secret

CHARS: Final = string.ascii_letters + string.digits


def generated(count: int, chars: str = CHARS, seed: int = 7) -> str:
    """Characters as an issuer would draw them."""
    return "".join(random.Random(seed).choices(chars, k=count))


UPPER: Final = string.ascii_uppercase + string.digits
HEX: Final = "0123456789abcdef"
UUID: Final = "3f2b8c1e" + "-9d4a-4e6b-8f00-" + "5a7c9e1b2d3f"

FOUND: Final = [
    ("private key", "-----BEGIN " + "PRIVATE KEY-----"),
    ("private key", "text\n  -----BEGIN " + "RSA PRIVATE KEY-----\nMIIE"),
    ("private key", "-----BEGIN " + "OPENSSH PRIVATE KEY-----"),
    ("private key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----"),
    ("private key", "PuTTY-User-" + "Key-File-3: ssh-ed25519"),
    ("private key", "AGE-SECRET-" + "KEY-1" + generated(58, UPPER)),
    ("AWS access key", "the key is AK" + "IA" + generated(16, UPPER)),
    ("AWS access key", '"AS' + "IA" + generated(16, UPPER, 8) + '"'),
    *(("GitHub token", f"gh{kind}" + "_" + generated(36)) for kind in "pousr"),
    ("GitHub token", "use github" + "_pat_" + generated(22) + "_" + generated(59)),
    ("GitLab token", "gl" + "pat-" + generated(20)),
    ("Slack token", "xo" + "xb-" + generated(12, "0123456789") + "-" + generated(24)),
    ("Slack token", "xa" + "pp-1-" + generated(11, UPPER) + "-" + generated(13)),
    (
        "Slack webhook",
        "https://hooks.slack" + ".com/services/T" + generated(9, UPPER) + "/B"
        + generated(9, UPPER) + "/" + generated(24),
    ),
    ("Google API key", "AI" + "za" + generated(35)),
    ("Stripe key", "sk" + "_live_" + generated(24)),
    ("Stripe key", "rk" + "_test_" + generated(24)),
    ("Stripe key", "wh" + "sec_" + generated(32)),
    ("model provider key", "sk" + "-ant-api03-" + generated(80)),
    ("model provider key", "sk" + "-proj-" + generated(48)),
    ("npm token", "np" + "m_" + generated(36)),
    ("PyPI token", "py" + "pi-AgE" + generated(80)),
    ("Hugging Face token", "h" + "f_" + generated(34)),
    ("SendGrid key", "S" + "G." + generated(22) + "." + generated(43)),
    ("JSON web token", "ey" + f"J{generated(20)}.ey" + f"J{generated(40)}.{generated(43)}"),
    ("password in a URL", "postgres://shop:" + "n0t-so-s3cret@db:5432/shop"),
    ("password in a URL", "clone https://:" + generated(20) + "@git.example.org/x"),
    ("bearer token", "Authorization: Bear" + "er " + generated(40)),
    ("bearer token", "curl -H 'authorization: bas" + "ic " + generated(28) + "=='"),
    (PASSWORD, "pass" + "word: hunter2"),
    (PASSWORD, "The admin pass" + "word is Tr0ub4dor&3."),
    (PASSWORD, "DB_PASS" + "WORD=S3cr3tValue"),
    (PASSWORD, '"pass' + 'word": "swordfish"'),
    (PASSWORD, "pass" + "wd = 'swordfish'"),
    (PASSWORD, "db_pwd" + " := 20394857"),
    (PASSWORD, "psql --pass" + "word abc123def"),
    (PASSWORD, "**Pass" + "word**: letme!in9"),
    (PASSWORD, "dbPass" + "word => correct#horse7"),
    (ASSIGNED, "API" + "_KEY=" + generated(32)),
    (ASSIGNED, "  - the client sec" + "ret is " + generated(24)),
    (ASSIGNED, '"access' + '_token": "' + generated(40) + '"'),
    (ASSIGNED, "api-k" + "ey: " + generated(32, HEX)),
    (ASSIGNED, "secretAccess" + "Key: " + generated(40, CHARS + "+/")),
    (ASSIGNED, "deploy --tok" + "en " + generated(20)),
    (ASSIGNED, "AccountK" + "ey=" + generated(86, CHARS + "+/") + "=="),
]  # fmt: skip

PASSED: Final = [
    "",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 moved the session",
    "sha256: " + generated(64, HEX),
    "token_hash: " + generated(64, HEX),
    "api_key_sha256=" + generated(64, HEX),
    "secret: sha256:" + generated(64, HEX),
    f"idempotency key {UUID}, request token: {UUID}",
    "base64 of the answer: SGVsbG8sIHdvcmxkIQ==",
    "base64-encoded, URL-safe words such as QmFzZTY0IHdvcmRz in prose",
    "password: see vault",
    "password: see the vault under shop/db",
    "passwords: argon2id, cost 12",
    "password: argon2id",
    "password: sha256",
    "password: 12-character minimum, one digit",
    "password: at least 12 characters",
    "password_max: 128",
    "the password is hashed with bcrypt",
    "password = get_password()",
    "password=os.environ['DB_PASSWORD']",
    'password = "<your-password>"',
    'password: "see vault"',
    '"password": "string"',
    "password: changeme",
    "password: xxxx",
    "password: ********",
    "password: hunter2-example",
    "password: $DB_PASSWORD, password=${DB_PASSWORD}, password: {{ db_password }}",
    "password: config/secrets/db1.txt is not read",
    "password: /run/secrets/db_password_2026",
    "bypass: north5sea, compass=north5",
    "token = get_token()",
    "token: jwt.encode(payload)",
    "token = AuthenticationTokenProviderV2Handler",
    "token: session-management-strategy-v2-final",
    "TOKEN=${GITHUB_TOKEN}",
    "api_key = <your-key>",
    "API_KEY=YOUR_API_KEY_1234567890",
    "API_KEY=" + "x" * 32,
    "API_KEY=" + "0" * 32,
    "API_KEY=" + "xxxx0000" * 4,
    "access_key: ~/.aws/credentials",
    "credentials: ./config/service-account-2026.json",
    "private key in keys/id_ed25519, never copied",
    "token: 2026-04-10T12:30:00Z",
    "tokens: 3 and more; token budget: 4096",
    "secrets live in src/auth/api_key.py and test_secret_key2.py",
    "cache key: user:42:profile:v3; primary key: id",
    "AKIA" + "IOSFODNN7EXAMPLE is the one of the documentation",
    "AKIA is how they begin; so do ASIA and AIza and ghp_ and sk_live_",
    "sk-learn-style-pipelines-with-3-steps-and-more",
    "gh" + "p_" + "x" * 36,
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "Authorization: Bearer <token>",
    "bearer token-authentication-middleware",
    "basic understanding-of-everything",
    "postgres://user:password@localhost/db",
    "postgres://$USER:$PASSWORD@localhost/db",
    "redis://localhost:6379/0 and git@github.com:owner/name.git",
    "https://example.org/a:b@c",
    "JWT (eyJ...) in a cookie",
    "eyJhbGciOiJIUzI1NiJ9",
]


@pytest.mark.parametrize(("rule", "text"), FOUND)
def test_a_secret_is_found_by_its_rule(rule: str, text: str) -> None:
    assert find_secret(text) == rule


@pytest.mark.parametrize(("rule", "text"), FOUND)
def test_a_secret_is_found_in_the_midst_of_a_note(rule: str, text: str) -> None:
    note = f"2026-04-10: How we sign in\n  - JWT in a cookie\n  - {text}\n  - Scales\n"

    assert find_secret(note) == rule


@pytest.mark.parametrize("text", PASSED)
def test_what_only_looks_like_a_secret_passes(text: str) -> None:
    assert find_secret(text) is None


@pytest.mark.parametrize("chars", [CHARS, HEX, HEX.upper(), string.ascii_lowercase + "0123456789"])
def test_of_generated_keys_hardly_any_is_missed(chars: str) -> None:
    keys = [generated(32, chars, seed) for seed in range(1000)]

    missed = [key for key in keys if find_secret("api_key = " + key) is None]

    assert len(missed) <= 20


WORDS = st.one_of(
    st.text(string.ascii_lowercase, min_size=1, max_size=14),
    st.sampled_from(
        ["password", "token", "secret", "api_key", "Bearer", "basic", "is", "private", "--token"]
    ),
    st.sampled_from(
        ["(get_token2)", "(api_key.py)", "(src/auth/session.py)", "(UserTokenV2)", "(v1.2.3)"]
    ),
)


@given(st.lists(st.tuples(WORDS, st.sampled_from([" ", ": ", " = ", ", ", ".\n  - ", "/"]))))
def test_prose_and_names_of_code_never_trip(pairs: list[tuple[str, str]]) -> None:
    text = "".join(word + sign for word, sign in pairs)

    assert find_secret(text) is None


@given(st.text() | st.text("eyJ.-_:/@=password tokensk\"'` B1\n", max_size=300))
def test_no_text_makes_it_raise(text: str) -> None:
    assert find_secret(text + "\ud800") in {None, *(rule for rule, _ in FOUND)}


HOSTILE: Final = (
    "a", "-", " ", "eyJ", "eyJaaaaaaaa.", "://", "://a:", "bearer ", "password: ", "password=a1-",
    "token=", "--token ", "-----BEGIN A ", "sk-", "sk-a1B2c3-", "ghp_", "0aB", "https://a:b",
    "pass", "password is ", "AccountKey",
)  # fmt: skip


def _cpu_s(text: str) -> float:
    spent = []
    for _ in range(3):
        began_s = time.process_time()
        find_secret(text)
        spent.append(time.process_time() - began_s)
    return min(spent)


@pytest.mark.parametrize("piece", HOSTILE)
def test_eight_times_the_text_costs_about_eight_times_as_much(piece: str) -> None:
    little = (piece * 12_500)[:12_500]

    ratio = _cpu_s(little * 8) / max(_cpu_s(little), 1e-4)

    assert ratio < 32, "quadratic cost would be 64 times"
