"""`/people`: who is in which project, with which role; an owner takes people out of his. `/settings/tenant`: limits."""

from typing import Any, Final, Literal

from starlette.responses import RedirectResponse, Response

from service.contract.hidden import readable
from service.contract.ports import Arguments
from service.edge.advice import for_people
from service.edge.desk import asking
from service.edge.desk.visible import Visible
from service.edge.desk.when import moment, span
from service.edge.guard import Call, Endpoint
from service.edge.pages import page
from service.grants.manage import Role
from service.kit.actor import Actor
from service.kit.errors import Code, Refusal
from service.kit.language import figure, gettext, later
from service.proposals.people import Member, PeopleView, ProjectPeople, TenantView, Way

PATH: Final = "/people"
NO_MEMBER: Final = "There is no such member."
ROLES: Final[dict[Role, str]] = {"owner": later("owner"), "maintainer": later("maintainer"), "reader": later("reader")}
_MAY: Final[dict[Role, str]] = {
    "owner": later("decides, and manages repositories, connections and people"),
    "maintainer": later("decides, and manages connections"),
    "reader": later("reads"),
}
_WAYS: Final[dict[Way, str]] = {
    "passkey": later("passkey"),
    "password": later("password and code"),
    "oidc": later("another service"),
}
_MENDED: Final = frozenset({Code.LAST_OWNER, Code.PROOF_NEEDED, Code.FORBIDDEN})


class _TakenOut(Arguments):
    action: Literal["revoke"]


async def shown(call: Call) -> Response:
    """The page."""
    return await _page(call, await asking.who(call))


async def take_out(call: Call) -> Response:
    """Take a member out of his project; what can be mended is said on the page where it was tried."""
    actor = await asking.who(call)
    member = asking.read_id(call.request.path_params["id"], NO_MEMBER)
    await asking.form(call, _TakenOut)
    try:
        await call.parts.desk.people.take_out(actor, member)
    except Refusal as refusal:
        if refusal.code not in _MENDED:
            raise
        return await _page(call, actor, refusal)
    return RedirectResponse(f"{PATH}?tenant={actor.tenant}", 303)


async def _page(call: Call, actor: Actor, refusal: Refusal | None = None) -> Response:
    view = await call.parts.desk.people.read(actor)
    status = refusal.code.value.status if refusal else 200
    return page(call, "people.html", status, **people_page(view, str(actor.tenant), refusal))


def people_page(view: PeopleView, tenant: str, refusal: Refusal | None = None) -> dict[str, Any]:
    """The values of the template."""
    return {
        "here": PATH,
        "waiting": view.waiting,
        "tenant": tenant,
        "refused": f"{refusal.said} {for_people(refusal)}" if refusal else "",
        "prove": refusal is not None and refusal.code is Code.PROOF_NEEDED,
        "meanings": [{"role": gettext(name), "may": gettext(_MAY[role])} for role, name in ROLES.items()],
        "projects": [_project(one, view) for one in view.projects],
    }


def _project(one: ProjectPeople, view: PeopleView) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "name": Visible().line(one.name),
        "may_manage": one.may_manage,
        "members": [_member(member, view) for member in one.members],
    }


def _member(one: Member, view: PeopleView) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "email": Visible().line(one.email),
        "name": Visible().line(one.name),
        "role_name": gettext(ROLES[one.role]),
        "paused": one.state == "paused",
        "me": one.me,
        "since": moment(one.since, view.now),
        "ways": ", ".join(gettext(_WAYS[way]) for way in one.ways),
    }


async def tenant(call: Call) -> Response:
    """`/settings/tenant`: what holds for everybody here."""
    actor = await asking.who(call)
    return page(call, "settings_tenant.html", **tenant_page(await call.parts.desk.people.tenant(actor)))


def tenant_page(view: TenantView) -> dict[str, Any]:
    """The values of the template."""
    return {
        "here": "/settings/tenant",
        "waiting": view.waiting,
        "name": Visible().line(view.name),
        "title": readable(view.name),
        "facts": [
            (gettext("A proposal waits for a decision"), span(view.proposal_time)),
            (gettext("People are told before it expires"), span(view.warn_time)),
            (gettext("What was taken away can be restored for"), span(view.restore_time)),
            (gettext("Proposals of one proposer that may wait"), figure(view.pending_most)),
            (
                gettext("Commits are signed by the service"),
                gettext("They are signed") if view.sign_commits else gettext("They are not signed"),
            ),
        ],
    }


ENDPOINTS: Final = (
    Endpoint("GET", PATH, "people.view", shown, page=True),
    Endpoint("GET", "/settings/tenant", "people.view", tenant, page=True),
    Endpoint("POST", f"{PATH}/{{id}}", "people.manage", take_out, page=True),
)
