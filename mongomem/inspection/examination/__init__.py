"""What a doctor looks at: the server, the collections, what is slow, what is damaged.

    findings     what was found, how bad it is and what to do about it; what could not be seen
    server       versions, topology, clock, concerns, search
    collections  collections and their options, indexes, TTL, schema versions
    weights      what makes threads and searches slow: long histories, large channels, old vectors
    samples      documents that are damaged, or belong to nothing: a bounded sample of each kind
    examination  all of it, one after the other

Every look is bounded: by a number of documents, or by a time that the server may take. One that the
user has no right to, or that takes too long, is told and left out; the others go on.
"""
