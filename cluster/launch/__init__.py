"""Clusters: files for `ray up` and KubeRay, node set-up, checks of machines, tunnels, tokens and jobs.

Imports the rest of `cluster`; `decopa.commands` calls it. Files are filled in and judged without any machine.
"""
