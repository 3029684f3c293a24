"""What a person wants to know of a method; needs nothing of what the method needs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

__all__ = ["MethodInfo"]


@dataclass(frozen=True)
class MethodInfo:
    """What a person wants to know of a method before running it.

    Args:
        name: what people type.
        title: what tables show.
        year: of its publication.
        reference: where it was published.
        summary: what it does, in one sentence.
        needs_domain_labels: whether training needs to know each image's domain.
        touches_target: whether it learns from target images at test time.
        stateless: whether an answer depends on the model, the image and the seed alone.
    """

    name: str
    title: str
    year: int
    reference: str
    summary: str
    _: KW_ONLY
    needs_domain_labels: bool = False
    touches_target: bool = False
    stateless: bool = True

    def wrapping(self, base: MethodInfo) -> MethodInfo:
        """What a test-time method is on top of another: it needs, touches and remembers what either of them does."""
        return replace(
            self,
            name=f"{self.name}+{base.name}",
            title=f"{self.title} on {base.title}",
            needs_domain_labels=self.needs_domain_labels or base.needs_domain_labels,
            touches_target=self.touches_target or base.touches_target,
            stateless=self.stateless and base.stateless,
        )
