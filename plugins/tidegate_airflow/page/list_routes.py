"""The list of all subscriptions, the worst first."""

from typing import Annotated

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse

from tidegate.monitoring.overview import counts, selected
from tidegate_airflow.page.access import all_standings, settings_here
from tidegate_airflow.page.rendering import render
from tidegate_airflow.rest.airflow_dags import conditions

_SHOWN = 100  # subscriptions at a time


def add_list_routes(app: FastAPI) -> None:
    """The page, and the part of it that is asked for again and again."""

    @app.get("/")
    def listed(
        request: Request,
        user: GetUserDep,
        q: Annotated[str, Query(max_length=250)] = "",
        verdict: Annotated[str, Query(max_length=20)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    ) -> HTMLResponse:
        known, found = all_standings(settings_here(), user)
        wanted = selected(found, q, verdict)
        shown = wanted[(page - 1) * _SHOWN : page * _SHOWN]
        looked_at = [(each.name, each.observed_at) for each in shown if not each.orphan]
        request.app.state.background.refresh(looked_at, known.now)
        return render(
            request,
            "list.html",
            q=q,
            verdict=verdict,
            page=page,
            shown=shown,
            found=len(wanted),
            all=len(found),
            pages=max(1, -(-len(wanted) // _SHOWN)),
            counts=counts(found),
            dags=conditions({each.name for each in shown if not each.orphan}),
            asked_at=min((each.observed_at for each in shown if each.observed_at), default=None),
        )
