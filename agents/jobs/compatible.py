# SPDX-License-Identifier: Apache-2.0
"""Which of a spec's mechanisms go together.

Rule: a combination that cannot keep what one of its parts promises is refused when the job is
read, with the reason; one that keeps it badly is a warning with the figure. Nobody trains, stakes
or pays on a spec that was refused. Each combination is a function in `agents.jobs.combinations`, in
a file by what it is about.
"""

from __future__ import annotations

from agents.jobs.combinations import machines, noise, pay, payloads, pipelines, rates
from agents.mechanisms.codec import Codec, LinearCodec, SupportCodec
from agents.mechanisms.privacy import Privacy
from agents.mechanisms.verify import Companions, Verification
from agents.training.spec import JobSpec, SpecError
from agents.training.state import Shapes


def check_together(
    spec: JobSpec, shapes: Shapes, verification: Verification, codec: Codec, privacy: Privacy
) -> list[str]:
    """Warnings about a spec, as sentences. Raises SpecError for what cannot work."""
    wrong = [
        *noise.data(spec, privacy),
        *verification.objections(_companions(spec, codec, privacy)),
        *payloads.merging(spec, codec, privacy),
        *pipelines.together(spec, verification, privacy),
        *pipelines.unlike_machines(spec),
        *machines.listed(spec, verification, privacy),
        *machines.kept_state(spec, verification, codec),
        *machines.products(spec, verification, privacy),
        *machines.skippable(spec, verification, codec),
        *pay.showing(spec, verification, codec),
        *pay.saying_little(spec, verification, codec),
        *pay.alike(spec),
        *pay.paying(spec),
    ]
    if wrong:
        raise SpecError("; ".join(wrong))
    return [
        *payloads.sizes(spec, verification, codec, privacy),
        *payloads.mixing(spec, codec),
        *payloads.signs(spec, codec),
        *payloads.projecting(spec, codec),
        *payloads.unnamed(shapes, codec),
        *payloads.small_shapes(spec, shapes, codec),
        *machines.convicting(spec, verification, codec),
        *noise.blinding(spec, shapes, codec, privacy),
        *pay.riding(spec, verification),
        *pay.lots(spec, privacy),
        *pay.taking_much(spec, codec),
        *pay.showing_little(spec, verification, codec),
        *pipelines.segments(spec),
        *rates.idle(spec),
    ]


def _companions(spec: JobSpec, codec: Codec, privacy: Privacy) -> Companions:
    return Companions(
        access=spec.access,
        codec=spec.codec,
        memory_rounds=codec.memory_rounds,
        has_memory=codec.has_memory,
        linear=isinstance(codec, LinearCodec),
        names_numbers=isinstance(codec, SupportCodec),
        privacy=spec.privacy,
        privacy_unit=privacy.unit,
        privacy_place=privacy.place,
    )
