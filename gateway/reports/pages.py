"""Results in OpenAI's page of buckets, or one after the other for CSV. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.reports.figures import Object, iso
from gateway.usage_query import ReportQuery

Bucket = tuple[int, int]
"""Start and end, unix seconds."""


@dataclass(frozen=True, slots=True)
class Report:
    """One page: every bucket, also those without a result."""

    query: ReportQuery
    results: Sequence[Sequence[Object]]
    """Of each bucket of the query."""
    finalised: datetime | None
    """No figure before this will change any more."""
    template: Object
    """A result of nothing: its members are those of all, in their order."""

    def page(self) -> Object:
        return {
            "object": "page",
            "data": [
                {"object": "bucket", **_times(bucket), "results": list(results)}
                for bucket, results in zip(self.query.buckets, self.results, strict=True)
            ],
            "has_more": self.query.next_page is not None,
            "next_page": self.query.next_page,
            "finalised_through": self.finalised_through,
        }

    def rows(self) -> Iterator[Object]:
        """Each result with the times of its bucket."""
        for bucket, results in zip(self.query.buckets, self.results, strict=True):
            for result in results:
                yield {**_times(bucket), **result}

    @property
    def row_template(self) -> Object:
        return {**_times((0, 0)), **self.template}

    @property
    def finalised_through(self) -> int | None:
        return None if self.finalised is None else int(self.finalised.timestamp())


def _times(bucket: Bucket) -> Object:
    start, end = bucket
    return {"start_time": start, "end_time": end, "start_time_iso": iso(start), "end_time_iso": iso(end)}
