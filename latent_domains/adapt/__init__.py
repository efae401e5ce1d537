"""From folders of one's own images to a model, predictions and a report: ``python -m tools.adapt``.

``trees``    what the folders hold                  ``settings`` what was asked for, kept for a second call
``paths``    where everything lies                  ``lmdbs``    the images as LMDBs
``dataset``  the description that training takes    ``weights``  what training begins with
``duration`` how long training will take            ``programs`` other programs as stages
``stages``   what is done, one after the other      ``results``  tables of domains, and a page that explains
"""
