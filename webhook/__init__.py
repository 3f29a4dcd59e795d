"""The webhook: a small process of its own that turns elected pods into proxy pods as they are created.

settings -> app; the app keeps a certificate (bundle, rotation), registers itself (registration), knows the targets
(targets) and answers AdmissionReviews (review, server). Every replica does all of it: there is no leader.
"""
