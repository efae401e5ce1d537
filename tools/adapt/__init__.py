"""From folders of one's own images to a model, predictions and a report: ``python -m tools.adapt``.

``trees``    what the folders hold               ``settings`` what was asked for, kept for a second call
``dataset``  the description that training takes  ``weights``  what training begins with
``duration`` how long training will take          ``results``  tables of predictions and domains
``paths``    where everything lies                ``__main__`` the stages, one after the other
"""
