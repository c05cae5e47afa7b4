"""What both memories ask of the database before they use it.

names       how collections are named: one prefix for all
ownership   the plan that refuses a collection which somebody else uses
indexes     indexes as rows of a table, and the plan that makes the server have them
migrations  how data of an older schema becomes current: numbered, additive, resumable
"""
