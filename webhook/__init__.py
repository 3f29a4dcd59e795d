"""The webhook: a small process of its own that turns elected pods into proxy pods as they are created.

settings -> app; the app keeps a certificate (agent.base.bundle, rotation), registers itself (configurations,
registration), knows the targets (targets) and answers AdmissionReviews (review, handlers, server): of pods (pods), and
of our own kinds (validation, validator). Every replica does all of it: there is no leader.
"""
