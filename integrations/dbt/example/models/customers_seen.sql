SELECT customer, name FROM {{ source('mill', 'customers') }}
