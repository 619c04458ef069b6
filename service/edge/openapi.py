"""The descriptions under openapi/, generated from the routes and the types that they answer with (OpenAPI 3.1)."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from service.contract.data import Json
from service.contract.ports import Answer
from service.edge import oauth
from service.edge.desk import api, parts, signing
from service.edge.guard import COOKIE, Endpoint
from service.tools.registry import catalogue_text, discover

_REF: Final = "#/components/schemas/{model}"
_NAMES: Final = str.maketrans("/-.", "___", "{}")
_PARAMETER: Final = re.compile(r"\{(\w+)\}")


class ErrorBody(Answer):
    """What is wrong and what to do next; further members name field, limit and value where that helps."""

    model_config = ConfigDict(extra="allow")

    code: str
    message: str
    next: str


class ErrorAnswer(Answer):
    """Every refusal of the owner API."""

    error: ErrorBody


class OAuthError(Answer):
    """Every refusal of the authorization server (RFC 6749, 5.2)."""

    error: str
    error_description: str | None = None


def documents() -> dict[str, str]:
    """File name to content of everything under openapi/."""
    session = {"type": "apiKey", "in": "cookie", "name": COOKIE}
    routes = (*api.ENDPOINTS, *parts.API, *signing.ENDPOINTS)
    owner = _description("Placet owner API", routes, ErrorAnswer, {"browser_session": session})
    authorization = _description("Placet authorization server", oauth.ENDPOINTS, OAuthError, {})
    return {
        "owner.json": _text(owner),
        "oauth.json": _text(authorization),
        "tools.json": catalogue_text(discover()),
    }


def _description(
    title: str, endpoints: Iterable[Endpoint], error: type[BaseModel], schemes: Mapping[str, Json]
) -> Json:
    described = [one for one in endpoints if one.docs is not None]
    models = {error} | {model for one in described for model in _models(one)}
    _, schemas = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda one: one.__name__)], ref_template=_REF
    )
    paths: dict[str, Json] = {}
    for one in described:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, error, list(schemes))
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas["$defs"], "securitySchemes": dict(schemes)},
    }


def _models(one: Endpoint) -> list[type[BaseModel]]:
    docs = one.docs
    return [] if docs is None else [*docs.answers.values(), *([docs.sends] if docs.sends else [])]


def _operation(one: Endpoint, error: type[BaseModel], schemes: list[str]) -> Json:
    docs = one.docs
    if docs is None:
        raise ValueError(f"{one.path} has no docs")
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(one.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "description": told, "schema": {"type": "string"}}
        for name, told in docs.asks.items()
    ]
    if schemes and one.method == "POST":
        parameters.append({"name": "X-CSRF-Token", "in": "header", "required": True, "schema": {"type": "string"}})
    answers: dict[str, Json] = {
        str(status): {"description": _first(model.__doc__), "content": _content(model)}
        for status, model in docs.answers.items()
    }
    answers["4XX"] = {"description": _first(error.__doc__), "content": _content(error)}
    operation: Json = {
        "summary": _first(one.handler.__doc__),
        "operationId": f"{one.method.lower()}{one.path}".translate(_NAMES),
        "parameters": parameters,
        "responses": answers,
        "security": [{name: []} for name in schemes],
        "x-permission": one.permission,
    }
    if docs.sends:
        operation["requestBody"] = {"required": True, "content": _content(docs.sends, docs.media)}
    return operation


def _content(model: type[BaseModel], media: str = "application/json") -> Json:
    return {media: {"schema": {"$ref": _REF.format(model=model.__name__)}}}


def _first(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
