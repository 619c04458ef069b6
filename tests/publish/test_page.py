"""`/settings/notifications`, as a browser uses it."""

import re
from uuid import uuid4

import pytest

from service.edge.desk.notices import PATH
from tests.stage import House, Web

pytestmark = pytest.mark.anyio


async def test_choices_are_kept_and_shown_again(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    form = {"push": ["waiting", "failed"], "zone": "Europe/Berlin", "quiet_from": "22:00", "quiet_to": "07:00"}
    answer = await web.http.post(PATH, headers=browser, data={**form, "digest": "8"})
    assert answer.status_code == 303
    text = (await web.http.get(PATH, headers=browser)).text
    assert len(re.findall(r'name="push" value="(waiting|failed)" checked', text)) == 2
    for piece in ('value="Europe/Berlin"', 'value="22:00"', 'value="07:00"', '<option value="8" selected'):
        assert piece in text


@pytest.mark.parametrize(
    "wrong", [{"zone": "Mars/Base"}, {"zone": "../etc/passwd"}, {"quiet_from": "25:00"}, {"quiet_to": "07:00"},
              {"digest": "24"}, {"digest": "x"}, {"push": "everything"}, {"mail": ["test"] * 9}])  # fmt: skip
async def test_a_wrong_choice_names_its_field(web: Web, house: House, wrong: dict[str, str]) -> None:
    browser = await web.browser(house.owner)
    answer = await web.http.post(PATH, headers=browser, data={"zone": "UTC", **wrong})
    assert answer.status_code == 422


async def test_a_webhooks_secret_is_shown_once(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    url = "https://hooks.example.org/placet"
    answer = await web.http.post(f"{PATH}/webhooks", headers=browser, data={"url": url})
    assert answer.status_code == 200
    assert re.search(r"whsec_[A-Za-z0-9+/]{43}=", answer.text)
    again = (await web.http.get(PATH, headers=browser)).text
    assert url in again
    assert "whsec_" not in again
    which = re.search(r"/webhooks/([0-9a-f-]{36})", again)
    assert which
    removed = await web.http.post(f"{PATH}/webhooks/{which[1]}", headers=browser, data={"action": "revoke"})
    assert removed.status_code == 303
    assert url not in (await web.http.get(PATH, headers=browser)).text


async def test_a_webhook_inside_is_refused_on_the_page(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    answer = await web.http.post(f"{PATH}/webhooks", headers=browser, data={"url": "http://169.254.169.254/latest"})
    assert answer.status_code == 422


async def test_a_subscription_to_an_address_inside_or_without_keys_is_refused(web: Web, house: House) -> None:
    browser = await web.browser(house.owner)
    for endpoint in ("https://127.0.0.1/push", "https://push.example.org/x"):
        body = {"endpoint": endpoint, "keys": {"p256dh": "AAAA", "auth": "AAAA"}}
        answer = await web.http.post(f"{PATH}/browsers", headers=browser, json=body)
        assert answer.status_code == 422


async def test_another_persons_webhook_is_none(web: Web, house: House, neighbour: House) -> None:
    browser = await web.browser(neighbour.owner)
    answer = await web.http.post(f"{PATH}/webhooks/{uuid4()}", headers=browser, data={"action": "revoke"})
    assert answer.status_code == 404
