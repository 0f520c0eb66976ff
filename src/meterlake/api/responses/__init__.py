"""What the API's document cannot derive from entities: computed members, and operations of their own.

The classes only describe; their names are the names of components in the document.
"""
