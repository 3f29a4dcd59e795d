"""The webhook: a small separate process that turns elected pods into proxy pods at creation.

settings -> app; the app keeps a certificate (agent.base.certificate_bundle, rotation), registers itself
(configurations,
registration), watches the targets (targets) and answers AdmissionReviews (review, handlers, server): of pods (pods),
and of our own kinds (validation, validator). Every replica does all of it: there is no leader.
"""
