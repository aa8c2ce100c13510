"""Decides who is told of which incidents, when, and in which groups. Pure: time is an argument everywhere.

    labels       what routes and silences see of an incident
    matching     matchers of labels
    windows      times of a week, in a zone
    routes       a tree of routes -> the destinations of an incident
    silences     matchers that hold incidents back until an instant
    inhibition   causes that hold back what follows from them
    grouping     incidents of a destination -> one notice at a time
    escalation   who is told next while nobody has acknowledged

The semantics of routes, groups, silences and inhibition are Alertmanager's, so who knows one knows both.
Nothing here remembers what it decided: groups are folded from events, so restarts and monitors agree.
"""
