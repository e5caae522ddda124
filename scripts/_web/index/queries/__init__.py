# SPDX-License-Identifier: Apache-2.0
"""What pages and API ask of the index.

Rule: a query takes a `Reading` and returns models of that one block. What is not there is NotFound
with a sentence.
"""

from scripts._web.index.queries.about_jobs import job as job
from scripts._web.index.queries.about_jobs import job_row as job_row
from scripts._web.index.queries.about_jobs import jobs as jobs
from scripts._web.index.queries.about_jobs import rounds as rounds
from scripts._web.index.queries.about_money import account as account
from scripts._web.index.queries.about_money import payments as payments
from scripts._web.index.queries.about_network import events as events
from scripts._web.index.queries.about_network import facts as facts
from scripts._web.index.queries.about_network import home as home
from scripts._web.index.queries.about_nodes import node as node
from scripts._web.index.queries.about_nodes import nodes as nodes
from scripts._web.index.queries.about_operations import operation as operation
from scripts._web.index.queries.about_operations import operations as operations
from scripts._web.index.queries.about_reports import reports as reports
from scripts._web.index.queries.about_rounds import round_ as round_
from scripts._web.index.queries.about_tasks import task as task
from scripts._web.index.queries.about_tasks import tasks as tasks
from scripts._web.index.queries.base import cid_of as cid_of
