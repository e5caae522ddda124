# SPDX-License-Identifier: Apache-2.0
"""Pipeline mode: each miner holds one stage of the model, and samples pass through all stages.

`stage.py` is a stage at work. `miner.py` is a live miner: `schedule.py` says what it does next,
`post.py` and `courier.py` carry its letters into the `mailbox.py` of an epoch, `held.py` and
`collector.py` those to a miner without an address, over `relays.py` where the sender has none
either. `entries_file.py` keeps what it received. The other files are rules: pure functions that
every party evaluates alike. None uses a chain, and only those of the live miner a file, a clock or
a network.
"""
