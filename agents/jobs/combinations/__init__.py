# SPDX-License-Identifier: Apache-2.0
"""Which of a spec's mechanisms go together, by what they are about (`agents.jobs.compatible`)."""
