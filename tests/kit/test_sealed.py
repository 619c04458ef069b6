"""Secrets at rest: what is sealed opens where it belongs and nowhere else."""

from uuid import UUID, uuid4

import pytest

from service.kit.sealed import Sealer, Unsealable

SECRET = b"the private half of a signing key"
TENANT, ROW = UUID(int=1), UUID(int=2)
OLD, NEW = b"o" * 32, b"n" * 32


def test_what_is_sealed_opens_in_its_own_row() -> None:
    sealed = Sealer(NEW).seal(SECRET, TENANT, ROW)
    assert Sealer(NEW).open(sealed, TENANT, ROW) == SECRET
    assert SECRET not in sealed


@pytest.mark.parametrize(("tenant", "row"), [(uuid4(), ROW), (TENANT, uuid4()), (ROW, TENANT)])
def test_it_does_not_open_for_another_tenant_or_in_another_row(tenant: UUID, row: UUID) -> None:
    sealed = Sealer(NEW).seal(SECRET, TENANT, ROW)
    with pytest.raises(Unsealable):
        Sealer(NEW).open(sealed, tenant, row)


def test_no_byte_of_it_can_be_changed_and_none_left_out() -> None:
    sealer = Sealer(NEW)
    sealed = sealer.seal(SECRET, TENANT, ROW)
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    cut = [sealed[:length] for length in range(len(sealed))]
    for wrong in (*changed, *cut, sealed + b"\0"):
        with pytest.raises(Unsealable):
            sealer.open(wrong, TENANT, ROW)


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    sealer = Sealer(NEW)
    assert len({sealer.seal(SECRET, TENANT, ROW) for _ in range(20)}) == 20


def test_an_older_secret_opens_until_everything_is_sealed_anew() -> None:
    before = Sealer(OLD).seal(SECRET, TENANT, ROW)
    both = Sealer(NEW, OLD)
    assert not both.is_current(before)
    anew = both.seal(both.open(before, TENANT, ROW), TENANT, ROW)
    assert both.is_current(anew)
    assert Sealer(NEW).open(anew, TENANT, ROW) == SECRET
    for sealer, sealed in ((Sealer(NEW), before), (Sealer(OLD), anew)):
        with pytest.raises(Unsealable, match="not at hand"):
            sealer.open(sealed, TENANT, ROW)


def test_nothing_that_is_printed_of_it_is_secret() -> None:
    sealer = Sealer(NEW, OLD)
    shown = repr(sealer) + repr(vars(sealer))
    assert not any(secret.decode() in shown for secret in (NEW, OLD))
    assert "AESGCM" not in shown
