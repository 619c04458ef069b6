"""A connection that broke is one that does not answer, however its driver says so."""

import pytest
from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi
from sqlalchemy.exc import InternalError

from service.kit.database import Database
from service.kit.errors import Code, Refusal
from tests.stage import House

pytestmark = pytest.mark.anyio


async def test_a_connection_that_went_in_the_middle_of_an_answer_is_no_fault_of_ours(
    house: House, app_db: Database
) -> None:
    said = AsyncAdapt_asyncpg_dbapi.InternalClientError(
        "cannot switch to state 11; another operation (2) is in progress", None
    )

    async def broken() -> None:
        async with app_db.bound(house.tenant) as tx:
            await tx.execute(select(text("1")))
            raise InternalError("SELECT 1", {}, said)

    with pytest.raises(Refusal) as refused:
        await broken()
    assert refused.value.code is Code.UNAVAILABLE
