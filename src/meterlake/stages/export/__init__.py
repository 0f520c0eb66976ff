"""What can be exported, and how it is written: columns, SQL, documents, names of objects.

`types.EXPORTS` is the whole list. Measurements have the columns of the drop folder, so that an
exported file can be ingested again; operational types have the fields of the wire, in CSV and
Parquet nested ones under dotted names.
"""
