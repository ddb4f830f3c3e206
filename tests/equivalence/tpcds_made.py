"""Rows of TPC-DS that queries with several conditions ask for; at the end all of them are there.

The first rows of a dimension have most of the sales. Its last rows have those only that are made for them here, so that
sums of theirs are known.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, TypeAlias

Made: TypeAlias = dict[str, Any]
"""Values of some columns of a row; a date stands for the key of its day."""

FIRST_ROWS: dict[str, tuple[Made, ...]] = {
    "item": (
        {"i_category": "Women", "i_class": "maternity"},
        {"i_category": "Women", "i_color": "powder", "i_units": "Ounce", "i_size": "medium", "i_manufact_id": 738},
        {"i_category": "Jewelry", "i_manufact_id": 128},
        {"i_category": "Men", "i_color": "floral", "i_units": "N/A", "i_size": "petite", "i_manufact_id": 738},
        {"i_color": "peach", "i_category": "Music"},
        {"i_color": "burlywood", "i_current_price": 70},
        {"i_current_price": 75, "i_manufact_id": 129},
    ),
    "store": (
        {
            "s_county": "Williamson County",
            "s_state": "TN",
            "s_number_employees": 250,
            "s_city": "Fairview",
            "s_zip": "24128",
            "s_store_name": "ought",
            "s_market_id": 8,
        },
    )
    * 2,
    "customer_address": ({"ca_city": "Edgewood"}, {"ca_state": "GA"}, {"ca_state": "IL"}, {"ca_city": "Midway"}),
    "household_demographics": (
        {"hd_buy_potential": ">10000", "hd_dep_count": 4, "hd_vehicle_count": 3},
        {"hd_buy_potential": "Unknown", "hd_dep_count": 1, "hd_vehicle_count": 2, "hd_income_band_sk": 6},
        {"hd_buy_potential": ">10000", "hd_dep_count": 2, "hd_vehicle_count": 1},
    ),
    "customer_demographics": (
        {"cd_gender": "M", "cd_marital_status": "S", "cd_education_status": "College"},
        {"cd_gender": "F", "cd_marital_status": "W", "cd_education_status": "Unknown"},
        {"cd_gender": "M", "cd_marital_status": "M", "cd_education_status": "Advanced Degree"},
        {"cd_gender": "M", "cd_marital_status": "M", "cd_education_status": "Unknown"},
        {"cd_marital_status": "D"},
    ),
    "income_band": ({},) * 6,
    "promotion": ({"p_channel_tv": "N"},),
    "customer": ({},),
    "warehouse": ({"w_warehouse_name": "Doors canno"},),
    "call_center": ({},),
    "catalog_page": ({},),
    "web_page": ({},),
    "reason": ({},),
}

_BOOK, _EVEN, _BURLYWOOD, _CHEAP, _BACK, _SLATE, _READER = range(91, 98)  # keys of items
_HOME, _TEXAS, _GROWING, _OHIO, _WEST = range(51, 56)  # keys of addresses
_GEORGIA, _PEACH, _DEAR = 2, 5, 7  # the keys of an address and two items among the first rows
_CUSTOMER, _GEORGIAN, _OTHER_GEORGIAN, _WESTERNER = 71, 83, 84, 85
_HOUSEHOLD = 61
_AT_HOME = {
    "c_current_addr_sk": _HOME,
    "c_preferred_cust_flag": "Y",
    "c_current_cdemo_sk": 3,
    "c_current_hdemo_sk": _HOUSEHOLD,
    "c_first_sales_date_sk": datetime.date(1998, 2, 3),
    "c_first_shipto_date_sk": datetime.date(1998, 2, 5),
    "c_birth_country": "PERU",
}

LAST_ROWS: dict[str, tuple[Made, ...]] = {
    "item": (
        {"i_category": "Books", "i_brand_id": 99, "i_class_id": 99, "i_category_id": 99, "i_manufact_id": 99},
        {"i_item_id": "EVEN", "i_category": "Books", "i_brand_id": 98, "i_class_id": 98, "i_category_id": 98},
        {"i_item_id": "BURLYWOOD", "i_color": "burlywood", "i_current_price": 70, "i_product_name": "product"},
        {"i_item_id": "CHEAP", "i_current_price": 1},
        {"i_item_id": "BACK"},
        {"i_item_id": "SLATE", "i_color": "slate", "i_current_price": 70, "i_manufact_id": 677, "i_manager_id": 1},
        {
            "i_item_id": "READER",
            "i_category": "Electronics",
            "i_class": "personal",
            "i_brand": "scholaramalgamalg #14",
            "i_manufact_id": 350,
            "i_manager_id": 77,
        },
    ),
    "customer_address": (
        {
            "ca_country": "United States",
            "ca_state": "TN",
            "ca_county": "Williamson County",
            "ca_city": "Fairview",
            "ca_zip": "24128",
        },
        {"ca_country": "United States", "ca_state": "TX"},
        {"ca_county": "Growing County", "ca_city": "Growing"},
        {"ca_country": "United States", "ca_state": "OH"},
        {"ca_gmt_offset": -7},
    ),
    "household_demographics": ({"hd_dep_count": 3, "hd_income_band_sk": 6},),
    "customer": (
        *(_AT_HOME,) * 12,
        {**_AT_HOME, "c_current_addr_sk": _GEORGIA},
        {**_AT_HOME, "c_current_addr_sk": _GEORGIA},
        {**_AT_HOME, "c_current_addr_sk": _WEST, "c_current_cdemo_sk": 4, "c_current_hdemo_sk": 2},
    ),
    "inventory": (
        {"date_sk": datetime.date(2000, 3, 1), "item_sk": _CHEAP, "warehouse_sk": 1, "quantity_on_hand": 100},  # q21
        {"date_sk": datetime.date(2000, 3, 20), "item_sk": _CHEAP, "warehouse_sk": 1, "quantity_on_hand": 110},
        {"date_sk": datetime.date(2000, 2, 20), "item_sk": _SLATE, "warehouse_sk": 1, "quantity_on_hand": 200},  # q37
        {"date_sk": datetime.date(1999, 3, 3), "item_sk": _CHEAP, "warehouse_sk": 1, "quantity_on_hand": 1},  # q72
        {"date_sk": datetime.date(2000, 6, 10), "item_sk": _DEAR, "warehouse_sk": 1, "quantity_on_hand": 300},  # q82
    ),
}

_QUARTERS = tuple(datetime.date(2000, month, 7) for month in (2, 5, 8))


def _growing(who: str, *each: int) -> tuple[Made, ...]:
    """q04, q11, q74: what a customer buys in two years."""
    columns = ("ext_list_price", "ext_sales_price", "net_paid")
    same = {"ext_wholesale_cost": 0, "ext_discount_amt": 0}
    return tuple(
        {"sold_date_sk": datetime.date(year, 1, 8), **dict.fromkeys(columns, 100 * much), **same, who: _CUSTOMER + 5}
        for year, much in zip((2001, 2002), each, strict=True)
    )


SALES: dict[str, tuple[Made, ...]] = {
    "store_sales": (
        {  # q64, and the next
            "sold_date_sk": datetime.date(1999, 2, 10),
            "item_sk": _BURLYWOOD,
            "store_sk": 1,
            "customer_sk": _CUSTOMER,
            "cdemo_sk": 1,
            "hdemo_sk": _HOUSEHOLD,
            "addr_sk": _HOME,
            "promo_sk": 1,
        },
        {
            "sold_date_sk": datetime.date(2000, 2, 10),
            "item_sk": _BURLYWOOD,
            "store_sk": 1,
            "customer_sk": _CUSTOMER + 1,
            "cdemo_sk": 1,
            "hdemo_sk": _HOUSEHOLD,
            "addr_sk": _HOME,
            "promo_sk": 1,
        },
        # q75: in the next year less is sold, and of this for a time nothing is left
        {"sold_date_sk": datetime.date(2001, 4, 2), "item_sk": _BOOK, "quantity": 10, "ext_sales_price": 300},
        {"item_sk": _PEACH, "store_sk": 1, "customer_sk": _CUSTOMER, "net_paid": 900},  # q24
        {"sold_date_sk": datetime.date(2000, 6, 2), "item_sk": _BACK, "quantity": 60},  # q83
        {  # q29: who buys it again
            "sold_date_sk": datetime.date(1999, 9, 9),
            "item_sk": _BACK,
            "store_sk": 1,
            "customer_sk": _CUSTOMER,
            "quantity": 8,
        },
        {  # q25, and returned in the month of q50
            "sold_date_sk": datetime.date(2001, 4, 9),
            "item_sk": _BACK,
            "store_sk": 1,
            "customer_sk": _CUSTOMER,
            "net_profit": 8,
        },
        {"sold_date_sk": datetime.date(2002, 3, 3), "item_sk": _BOOK, "quantity": 5, "ext_sales_price": 150},  # q75
        {"store_sk": 4, "addr_sk": None, "net_profit": 1},  # q44: better than the mean of sales without an address
        {"store_sk": 4, "item_sk": _BACK, "net_profit": 90000},
        {"sold_date_sk": datetime.date(2000, 11, 11), "item_sk": _SLATE, "ext_sales_price": 77},  # q42, q52
        {
            "sold_date_sk": datetime.date(2001, 2, 11),
            "item_sk": _SLATE,
            "addr_sk": _GROWING,
            "ext_sales_price": 8,
        },  # q56
        {
            "sold_date_sk": datetime.date(1998, 9, 11),
            "item_sk": _PEACH,
            "addr_sk": _GROWING,
            "ext_sales_price": 9,
        },  # q60
        {"sold_date_sk": datetime.date(2000, 2, 9), "item_sk": _READER, "store_sk": 1, "sales_price": 90},  # q53, q63
        {"sold_date_sk": datetime.date(2000, 5, 9), "item_sk": _READER, "store_sk": 1, "sales_price": 9},
        {
            "sold_date_sk": datetime.date(1998, 5, 9),
            "item_sk": _READER,
            "addr_sk": _GROWING,
            "ext_sales_price": 4,
        },  # q33
        {"sold_date_sk": datetime.date(2001, 11, 9), "item_sk": _EVEN, "quantity": 100, "list_price": 20000},  # q14
        *_growing("customer_sk", 1, 1),
        *(  # q34, q68: a ticket of 16 lines, from elsewhere
            {
                "addr_sk": _GROWING,
                "ticket_number": 2_000_000,
                "sold_date_sk": datetime.date(2000, 1, 2),
                "store_sk": 1,
                "hdemo_sk": 1,
                "customer_sk": _CUSTOMER,
                "item_sk": item,
            }
            for item in range(11, 27)
        ),
        # q08: to a store where more than ten customers live
        {"sold_date_sk": datetime.date(1998, 5, 4), "store_sk": 1, "net_profit": 50},
        {  # q13
            "sold_date_sk": datetime.date(2001, 4, 3),
            "store_sk": 1,
            "hdemo_sk": _HOUSEHOLD,
            "cdemo_sk": 3,
            "addr_sk": _TEXAS,
            "sales_price": 120,
            "net_profit": 150,
            "quantity": 7,
            "ext_sales_price": 840,
            "ext_wholesale_cost": 300,
        },
        {  # q48
            "sold_date_sk": datetime.date(2000, 7, 7),
            "store_sk": 1,
            "cdemo_sk": 1,
            "addr_sk": _TEXAS,
            "sales_price": 170,
            "net_profit": 500,
            "quantity": 9,
        },
        # q54: who bought something else elsewhere some weeks before
        {"sold_date_sk": datetime.date(1999, 2, 1), "customer_sk": _CUSTOMER, "ext_sales_price": 480},
        # q58: as much as the other ways of sale in that week
        {"sold_date_sk": datetime.date(2000, 1, 4), "item_sk": _EVEN, "ext_sales_price": 100},
        {"sold_date_sk": datetime.date(2001, 5, 5), "customer_sk": _GEORGIAN},  # q69
        {
            "sold_date_sk": datetime.date(2000, 9, 1),
            "item_sk": _DEAR,
            "promo_sk": 1,
            "store_sk": 1,
            "net_profit": 9,
        },  # q80
        # q23: so often on one day
        *({"sold_date_sk": datetime.date(2000, 6, 1), "item_sk": 1},) * 5,
        # q31: over the web more each quarter
        *({"sold_date_sk": day, "addr_sk": _GROWING, "ext_sales_price": 100} for day in _QUARTERS),
    ),
    "catalog_sales": (
        {"sold_date_sk": datetime.date(1999, 2, 10), "item_sk": _BURLYWOOD, "ext_list_price": 900},
        {"sold_date_sk": datetime.date(2000, 6, 2), "item_sk": _BACK, "quantity": 50},
        {},
        {},
        {},
        {"sold_date_sk": datetime.date(2000, 1, 5), "item_sk": _EVEN, "ext_sales_price": 103},
        {"sold_date_sk": datetime.date(2000, 8, 5), "item_sk": _BACK, "bill_customer_sk": _CUSTOMER, "quantity": 3},
        {"sold_date_sk": datetime.date(2001, 8, 5), "item_sk": _BACK, "bill_customer_sk": _CUSTOMER, "net_profit": 3},
        {"sold_date_sk": datetime.date(2000, 8, 5), "item_sk": _SLATE},
        *_growing("bill_customer_sk", 1, 3),
        {
            "sold_date_sk": datetime.date(1999, 3, 3),
            "ship_date_sk": datetime.date(1999, 3, 23),
            "item_sk": _CHEAP,
            "bill_cdemo_sk": 5,
            "bill_hdemo_sk": 1,
            "quantity": 50,
        },
    ),
    "web_sales": (
        {"sold_date_sk": datetime.date(2000, 6, 2), "item_sk": _BACK, "quantity": 40},
        {"sold_date_sk": datetime.date(2000, 6, 2), "web_page_sk": 1, "sales_price": 70, "net_profit": 160},  # q85
        {},
        {},
        {"sold_date_sk": datetime.date(2000, 1, 6), "item_sk": _EVEN, "ext_sales_price": 97},
        {"sold_date_sk": datetime.date(1998, 12, 4), "item_sk": 1, "bill_customer_sk": _CUSTOMER},
        {"sold_date_sk": datetime.date(2000, 2, 4), "item_sk": 1, "bill_customer_sk": 1},
        {"sold_date_sk": datetime.date(2000, 2, 4), "item_sk": _READER, "ext_discount_amt": 1},  # q92
        {"sold_date_sk": datetime.date(2000, 2, 5), "item_sk": _READER, "ext_discount_amt": 1000},
        *_growing("bill_customer_sk", 1, 2),
        *(
            {"sold_date_sk": day, "bill_addr_sk": _GROWING, "ext_sales_price": 100 * number}
            for number, day in enumerate(_QUARTERS, 1)
        ),
    ),
}
"""Sales that are made, by columns without their prefix; each is an order of its own."""

_IN_JUNE = {"returned_date_sk": datetime.date(2000, 6, 29)}
RETURNED: dict[str, tuple[tuple[int, Made], ...]] = {
    "store_returns": (
        (0, {}),
        (1, {}),
        (2, {"return_quantity": 10, "return_amt": 100}),
        (3, {}),
        (4, {**_IN_JUNE, "return_quantity": 5}),
        (5, {"returned_date_sk": datetime.date(1999, 10, 10)}),
        (6, {"returned_date_sk": datetime.date(2001, 8, 10)}),
    ),
    "catalog_returns": (
        (0, {"refunded_cash": 9, "reversed_charge": 8, "store_credit": 7}),
        (1, {**_IN_JUNE, "return_quantity": 6}),
        *(  # q81: one of two customers returns much more than the other
            (number, {**_IN_JUNE, "returning_customer_sk": who, "returning_addr_sk": _HOME, "return_amt_inc_tax": much})
            for number, who, much in ((2, _GEORGIAN, 90000), (3, _OTHER_GEORGIAN, 10))
        ),
        (  # q91
            4,
            {
                "returned_date_sk": datetime.date(1998, 11, 11),
                "call_center_sk": 1,
                "returning_customer_sk": _WESTERNER,
                "net_loss": 12,
            },
        ),
    ),
    "web_returns": (
        (0, {**_IN_JUNE, "return_quantity": 7}),
        (  # q85
            1,
            {
                "refunded_cdemo_sk": 1,
                "returning_cdemo_sk": 1,
                "refunded_addr_sk": _OHIO,
                "reason_sk": 1,
                "refunded_cash": 30,
            },
        ),
        *(  # q30
            (
                number,
                {
                    "returned_date_sk": datetime.date(2002, 4, 4),
                    "returning_customer_sk": who,
                    "returning_addr_sk": _HOME,
                    "return_amt": much,
                },
            )
            for number, who, much in ((2, _GEORGIAN, 90000), (3, _OTHER_GEORGIAN, 10))
        ),
    ),
}
"""Numbers of the sales above that are returned, and columns of their returns."""


@dataclass(frozen=True)
class Between:
    """A return that comes and goes again, of all that was sold: meanwhile q75 divides by zero.

    Attributes
    ----------
    row : int
        Its place in ``RETURNED``.
    comes, goes : float
        Times in [0, 1).
    """

    table: str
    row: int
    comes: float
    goes: float


BETWEEN = Between("store_returns", 2, 0.3, 0.75)
